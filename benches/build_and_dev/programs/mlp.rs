//! A perceptron of two layers with Adam on the handwritten digits; the chain rule by hand. Its argument is
//! the folder of `digits_images.npy`.
use rankform::io::npy;
use rankform::prelude::*;

const TRAINING: usize = 1437;
const CLASSES: usize = 10;
const HIDDEN: usize = 64;

elementwise! {
    /// One step of Adam: the parameter, its first and its second moment.
    fn adam(p, m, v, g, rate, correct1, correct2) -> (T, T, T) {
        let m = 0.9 * m + 0.1 * g;
        let v = 0.999 * v + 0.001 * (g * g);
        (p - rate * (m * correct1) / ((v * correct2).sqrt() + 1e-8), m, v)
    }
}

struct Parameter<const R: usize> {
    value: Tensor<f32, R>,
    m: Tensor<f32, R>,
    v: Tensor<f32, R>,
}

impl<const R: usize> Parameter<R> {
    fn new(value: Tensor<f32, R>) -> Result<Self> {
        let (m, v) = (Tensor::zeros_like(&value)?, Tensor::zeros_like(&value)?);
        Ok(Parameter { value, m, v })
    }
    fn step(&mut self, gradient: &Tensor<f32, R>, rate: f32, t: i32) -> Result<()> {
        let (c1, c2) = (1.0 / (1.0 - 0.9f32.powi(t)), 1.0 / (1.0 - 0.999f32.powi(t)));
        apply_in_place(adam, (&mut self.value, &mut self.m, &mut self.v), (gradient, rate, c1, c2))
    }
}

struct Mlp {
    w1: Parameter<2>,
    b1: Parameter<1>,
    w2: Parameter<2>,
    b2: Parameter<1>,
}

impl Mlp {
    fn new(inputs: usize) -> Result<Self> {
        let w1 =
            Tensor::<f32, 2>::random_normal([inputs, HIDDEN], 0.0, (2.0 / inputs as f32).sqrt(), 1, &Cpu)?;
        let w2 =
            Tensor::<f32, 2>::random_normal([HIDDEN, CLASSES], 0.0, (1.0 / HIDDEN as f32).sqrt(), 2, &Cpu)?;
        Ok(Mlp {
            w1: Parameter::new(w1)?,
            b1: Parameter::new(Tensor::zeros([HIDDEN], &Cpu)?)?,
            w2: Parameter::new(w2)?,
            b2: Parameter::new(Tensor::zeros([CLASSES], &Cpu)?)?,
        })
    }
    fn hidden(&self, x: &Tensor<f32, 2>) -> Result<Tensor<f32, 2>> {
        (x.matmul(&self.w1.value)?.lazy() + self.b1.value.lift()).relu().eval()
    }
    fn scores(&self, hidden: &Tensor<f32, 2>) -> Result<Tensor<f32, 2>> {
        Ok(hidden.matmul(&self.w2.value)? + self.b2.value.lift())
    }
    fn step(
        &mut self,
        x: &Tensor<f32, 2>,
        labels: &Tensor<i64, 1>,
        truth: &Tensor<f32, 2>,
        t: i32,
    ) -> Result<f32> {
        let n = x.size()[0] as f32;
        let hidden = self.hidden(x)?;
        let scores = self.scores(&hidden)?;
        let loss = scores.cross_entropy_mean(Axis::<1>, labels, ClassLoss::new())?.item()?;
        let slope = ((scores.softmax(Axis::<1>)?.lazy() - truth) / n).eval()?;
        let to_w2 = hidden.transposed().matmul(&slope)?;
        let to_b2 = slope.sum(Axis::<0>)?;
        let back = slope.matmul(self.w2.value.transposed())?;
        let back = hidden.lazy().greater(0.0).select(&back, 0.0).eval()?;
        let to_w1 = x.transposed().matmul(&back)?;
        let to_b1 = back.sum(Axis::<0>)?;
        let rate = 0.005;
        self.w1.step(&to_w1, rate, t)?;
        self.b1.step(&to_b1, rate, t)?;
        self.w2.step(&to_w2, rate, t)?;
        self.b2.step(&to_b2, rate, t)?;
        Ok(loss)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let data = std::path::PathBuf::from(std::env::args().nth(1).ok_or("the folder of the digits")?);
    let images: Tensor<u8, 3> = npy::read(data.join("digits_images.npy"))?;
    let labels: Tensor<u8, 1> = npy::read(data.join("digits_labels.npy"))?;
    let pixels = images.to_shape([images.size()[0], 64])?.cast::<f32>()?;
    let pixels = (pixels.lazy() / 16.0).eval()?;
    let (train, test) = pixels.split_at(Axis::<0>, TRAINING)?;
    let (train, test) = (train.copy()?, test.copy()?);
    let labels = labels.cast::<i64>()?;
    let (known, held) = labels.split_at(Axis::<0>, TRAINING)?;
    let classes = Tensor::arange(0i64, CLASSES as i64, 1, &Cpu)?;
    let truth = known.insert_axis(Axis::<1>).lazy().equal(classes.lift()).cast::<f32>().eval()?;
    let known = known.copy()?;
    let mut net = Mlp::new(64)?;
    for t in 1..=200 {
        let loss = net.step(&train, &known, &truth, t)?;
        if t % 50 == 0 {
            println!("step {t}: {loss:.4}");
        }
    }
    let guess = net.scores(&net.hidden(&test)?)?.argmax(Axis::<1>)?;
    let right = guess.lazy().equal(&held).count(All)?.item()?;
    println!("{right} of {} right", held.numel());
    Ok(())
}
