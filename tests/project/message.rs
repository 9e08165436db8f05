//! A compiler's messages as `compile_fail/*.stderr` keep them: the same on every machine, and after changes
//! elsewhere.
//!
//! Paths begin at the crate or at Rust's sources. Files other than the case have no line numbers. Lines are
//! as far left as the numbers that remain allow. Of long lists eight lines remain. The number of errors and
//! references to further reading are left out.

/// The message of a case, from the compiler's output, the file of the case and the crate's folder.
pub fn normalized(printed: &str, case: &str, root: &str) -> String {
    let root = format!("{root}/");
    let mut lines: Vec<String> = Vec::new();
    let mut elsewhere = false; // whether the excerpt is of another file than the case
    for line in few_of_many(printed).into_iter().filter(|line| !is_left_out(line)) {
        let line = line.as_str();
        let content = line.trim_start();
        let space = &line[..line.len() - content.len()];
        let place = ["--> ", "::: "].iter().find_map(|arrow| Some((arrow, content.strip_prefix(arrow)?)));
        let line = if let Some((arrow, path)) = place {
            let path = place_of(path, &root);
            elsewhere = !path.starts_with(case);
            format!("{space}{arrow}{}", if elsewhere { unnumbered(&path) } else { &path })
        } else {
            elsewhere &= content.starts_with(|c: char| c.is_ascii_digit() || c == '|' || c == '.');
            let line = line.replace(&root, "$DIR/");
            if elsewhere { without_line_number(&line) } else { line }
        };
        // One empty line separates messages.
        if !(line.is_empty() && lines.last().is_none_or(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    while lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let mut text = String::new();
    for message in lines.chunk_by(|line, _| !line.is_empty()) {
        to_the_left(message).for_each(|line| text.extend([&line, "\n"]));
    }
    text
}

/// Whether a line says how many errors there were, or where more is to read.
fn is_left_out(line: &str) -> bool {
    let said = line.trim_start();
    let said = said.strip_prefix("= note: ").unwrap_or(said);
    [
        "error: aborting due to ",
        "For more information about ",
        "Some errors have detailed explanations:",
        "the full type name has been written to",
        "the full name for the type has been written to",
    ]
    .iter()
    .any(|start| said.starts_with(start))
}

/// A place in the crate or in Rust's sources, from there.
fn place_of(path: &str, root: &str) -> String {
    if let Some(inside) = path.strip_prefix(root) {
        return inside.into();
    }
    match path.split_once("/library/") {
        Some((before, inside)) if before.ends_with("/rustlib/src/rust") || before.starts_with("/rustc/") => {
            format!("$RUST/{inside}")
        }
        _ => path.into(),
    }
}

/// A place without line and column.
fn unnumbered(path: &str) -> &str {
    path.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':')
}

/// A line of an excerpt with spaces for its number.
fn without_line_number(line: &str) -> String {
    let number = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').len();
    format!("{}{}", " ".repeat(number), &line[number..])
}

/// The lines, of long lists of implementations eight: how many there are changes with every new one.
fn few_of_many(printed: &str) -> Vec<String> {
    let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        kept.push(lines[at].to_string());
        let is_list =
            lines[at].contains("= help: the following ") && lines[at].contains("types implement trait ");
        at += 1;
        let listed = lines[at..].iter().take_while(|line| is_list && indent(line) >= 12).count();
        let shown = if listed > 9 { 8 } else { listed };
        kept.extend(lines[at..at + shown].iter().map(|line| line.to_string()));
        if listed > shown {
            kept.push(format!("{}and $N others", " ".repeat(indent(lines[at]) - 2)));
        }
        at += listed;
    }
    kept.into_iter().map(without_their_number).collect()
}

/// A line without the number of those that the compiler leaves out itself.
fn without_their_number(line: String) -> String {
    match line.trim_start().strip_prefix("and ").and_then(|rest| rest.strip_suffix(" others")) {
        Some(number) if number.bytes().all(|digit| digit.is_ascii_digit()) => line.replace(number, "$N"),
        _ => line,
    }
}

/// The width of the margin of a line that has one: the spaces before its bar, arrow or sign, or around its
/// line number.
fn margin(line: &str) -> Option<usize> {
    if let Some(rest) = line.strip_prefix("... ") {
        return rest.trim_start().starts_with('|').then(|| rest.len() - rest.trim_start().len());
    }
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let digits =
        line.bytes().filter(u8::is_ascii_digit).count() - rest.bytes().filter(u8::is_ascii_digit).count();
    let (spaces, numbered) = (line.len() - rest.len() - digits, digits > 0);
    let starts = |marks: &[&str]| marks.iter().any(|mark| rest == mark.trim_end() || rest.starts_with(mark));
    let is_one = starts(&["| "])
        || numbered && starts(&["~ ", "+ ", "- "])
        || !numbered && starts(&["--> ", "::: ", "= "]);
    (is_one && spaces > 0).then(|| spaces - 1)
}

/// The lines of one message with the margin that the widest of its line numbers needs.
fn to_the_left(message: &[String]) -> impl Iterator<Item = String> {
    let least = message.iter().filter_map(|line| margin(line)).min().unwrap_or(0);
    message.iter().map(move |line| {
        let belongs = margin(line).is_some() || line.starts_with(&" ".repeat(11));
        match line.find(' ').filter(|_| belongs) {
            Some(at) => format!("{}{}", &line[..at], &line[at + least..]),
            None => line.clone(),
        }
    })
}
