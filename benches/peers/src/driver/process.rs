//! The programs of the peers: started once, asked one case at a time.

use crate::Result;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than the slowest peer takes for one case, compiling included.
const PATIENCE: Duration = Duration::from_secs(300);

/// Some ticks of the system's clock: threads that spin are seen in it.
const LOOK: Duration = Duration::from_millis(30);
/// Longer than pools of threads spin before they sleep.
const SPIN: Duration = Duration::from_secs(1);

/// One peer: how it is started, and its process while it lives.
pub struct Peer {
    pub name: String,
    command: Vec<String>,
    process: Option<(Child, Receiver<String>)>,
}

/// A form of a peer in one round: nanoseconds a run, or why there are none.
pub struct Answer {
    pub form: String,
    pub times: String,
}

impl Peer {
    /// A peer that is installed: a program that was built, or a module that Python can import.
    pub fn find(name: &str, root: &Path, python: &str) -> Result<Peer> {
        let peer = |command: &[&str]| Peer {
            name: name.to_string(),
            command: command.iter().map(|word| word.to_string()).collect(),
            process: None,
        };
        if ["numpy", "torch", "jax"].contains(&name) {
            let imported =
                Command::new(python).args(["-c", &format!("import {name}")]).stderr(Stdio::null()).status();
            if !imported.is_ok_and(|status| status.success()) {
                return Err(format!("{python} cannot import it").into());
            }
            return Ok(peer(&[python, &root.join(format!("peers/{name}_peer.py")).display().to_string()]));
        }
        let (program, target) = match name.strip_suffix("@native") {
            Some(name) => (name, "target/native/release"),
            None if name == "limit" => (name, "target/native/release"),
            None => (name, "target/release"),
        };
        let program = root.join(target).join(format!("peer-{program}"));
        if !program.exists() {
            return Err("not built".into());
        }
        Ok(peer(&[&program.display().to_string()]))
    }

    fn start(&self, threads: usize) -> Result<(Child, Receiver<String>)> {
        // One thread stays on one core; where there is no `taskset`, the system decides.
        let pin =
            threads == 1 && Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_ok();
        let mut words = self.command.clone();
        if pin {
            let last = std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
            words.splice(0..0, ["taskset".to_string(), "-c".to_string(), last.to_string()]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for variable in ["PEER", "RAYON_NUM", "OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "MATMUL_NUM", "RTEN_NUM"]
        {
            command.env(format!("{variable}_THREADS"), threads.to_string());
        }
        if threads == 1 {
            command.env("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false");
        }
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                BufReader::new(output)
                    .lines()
                    .map_while(std::result::Result::ok)
                    .all(|line| sender.send(line).is_ok())
            });
        }
        Ok((child, lines))
    }

    /// Every form of one case; a process that died or hung is started anew the next time.
    pub fn ask(&mut self, case: &str, threads: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        let failed = |why: String| Answer { form: "?".to_string(), times: format!("failed: {why}") };
        if self.process.is_none() {
            match self.start(threads) {
                Ok(process) => self.process = Some(process),
                Err(error) => return vec![failed(error.to_string())],
            }
        }
        let Some((child, lines)) = &mut self.process else { return answers };
        let asked = child
            .stdin
            .as_mut()
            .is_some_and(|input| writeln!(input, "{case}").and_then(|()| input.flush()).is_ok());
        let deadline = Instant::now() + PATIENCE;
        let ended = asked
            && loop {
                match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                    Ok(line) if line == "end" => break true,
                    Ok(line) => {
                        if let Some((form, times)) = line.split_once('\t') {
                            answers.push(Answer { form: form.to_string(), times: times.to_string() });
                        }
                    }
                    Err(_) => break false,
                }
            };
        if !ended {
            self.stop();
            answers.push(failed("the process died or hung".to_string()));
        } else if threads > 1 {
            until_asleep(child.id());
        }
        answers
    }

    /// Ends the process that was started here.
    pub fn stop(&mut self) {
        if let Some((mut child, _)) = self.process.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Waits until the threads of a process sleep: those of some pools spin after work, on a core that the next
/// peer needs.
fn until_asleep(process: u32) {
    // Time in the program and in the system, in ticks; the name before them may have spaces, and ends with
    // the last bracket.
    let used = || {
        let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let words: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        Some(words.get(11..13)?.iter().map(|ticks| ticks.parse::<u64>().unwrap_or(0)).sum::<u64>())
    };
    let start = Instant::now();
    let mut before = used();
    while before.is_some() && start.elapsed() < SPIN {
        std::thread::sleep(LOOK);
        let now = used();
        if now == before {
            return;
        }
        before = now;
    }
}
