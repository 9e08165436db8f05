//! Operators by name on tensors of run-time types.

use num_complex::Complex;
use rankform::dispatch::{
    Any, Argument, Class, DispatchKey, DispatchKeySet, Dispatcher, Kernel, Quantized, Sparse, View,
};
use rankform::prelude::*;
use rankform::quantized::{Quantization, QuantizedTensor};
use rankform::{DType, DynTensor, QInt8, SparseTensor};
use std::sync::OnceLock;

fn arithmetic() -> &'static Dispatcher {
    static KEPT: OnceLock<Dispatcher> = OnceLock::new();
    KEPT.get_or_init(|| Dispatcher::with_arithmetic::<Cpu>().unwrap())
}

#[track_caller]
fn call(name: &str, arguments: &[Argument<'_>]) -> DynTensor {
    arithmetic().call(name, arguments).unwrap()
}

#[test]
fn an_operator_by_name_equals_the_typed_one() {
    let x = Tensor::from_vec((0..24).map(|i| i as f32 * 0.5 - 3.0).collect(), [2, 3, 4]).unwrap();
    let y = Tensor::from_vec((0..12).map(|i| 1.5 - i as f32).collect(), [3, 4]).unwrap();
    let (dx, dy) = (DynTensor::from(x.share_data()), DynTensor::from(y.share_data()));
    let typed: [(&str, Tensor<f32, 3>); 4] = [
        ("add", x.add(y.lift()).unwrap()),
        ("sub", x.sub(y.lift()).unwrap()),
        ("mul", x.mul(y.lift()).unwrap()),
        ("maximum", x.maximum(y.lift()).unwrap()),
    ];
    for (name, wanted) in typed {
        let found = call(name, &[(&dx).into(), (&dy).into()]);
        assert_eq!(
            found.downcast_ref::<f32, 3, Cpu>().unwrap().to_vec().unwrap(),
            wanted.to_vec().unwrap(),
            "{name}"
        );
    }
    let scaled = call("mul", &[(&dx).into(), 2.0.into()]);
    assert_eq!(
        scaled.downcast_ref::<f32, 3, Cpu>().unwrap().to_vec().unwrap(),
        x.mul(2.0).unwrap().to_vec().unwrap()
    );
    let taken = call("sub", &[1.0.into(), (&dx).into()]);
    assert_eq!(taken.downcast_ref::<f32, 3, Cpu>().unwrap().to_vec().unwrap()[23], 1.0 - 8.5);
    let turned = dx.permuted(&[2, 0, 1]).unwrap();
    let found = call("exp", &[(&turned).into()]);
    assert_eq!(
        found.downcast_ref::<f32, 3, Cpu>().unwrap().to_vec().unwrap(),
        x.permuted([2, 0, 1]).unwrap().exp().unwrap().to_vec().unwrap()
    );
}

#[test]
fn reductions_take_any_set_of_axes() {
    let x = Tensor::from_vec((0..24i64).collect(), [2, 3, 4]).unwrap();
    let dx = DynTensor::from(x.share_data());
    let sum = |axes: &[usize]| call("sum", &[(&dx).into(), axes.into()]);
    assert_eq!(sum(&[1]).downcast::<i64, 2, Cpu>().unwrap(), x.sum(Axis::<1>).unwrap());
    assert_eq!(sum(&[2, 0]).downcast::<i64, 1, Cpu>().unwrap(), x.sum((Axis::<0>, Axis::<2>)).unwrap());
    assert_eq!(sum(&[0, 1, 2]).downcast::<i64, 0, Cpu>().unwrap().item().unwrap(), 276);
    assert_eq!(sum(&[]).downcast::<i64, 3, Cpu>().unwrap(), x);
    assert_eq!(
        call("argmax", &[(&dx).into(), (&[1usize][..]).into()]).downcast::<i64, 2, Cpu>().unwrap(),
        x.argmax(Axis::<1>).unwrap()
    );
    for (axes, text) in [
        (&[3usize][..], "sum: axis 3 does not fit sizes [2, 3, 4]"),
        (&[1, 1], "sum: axis 1 does not fit sizes [2, 3, 4]"),
    ] {
        assert_eq!(arithmetic().call("sum", &[(&dx).into(), axes.into()]).unwrap_err().to_string(), text);
    }
}

#[test]
fn matrix_products_of_every_pair_of_ranks() {
    let of = |size: &[usize]| {
        let numel: usize = size.iter().product();
        DynTensor::from(Tensor::from_vec((0..numel).map(|i| i as f64 - 2.0).collect(), [numel]).unwrap())
            .reshaped(size)
            .unwrap()
    };
    for (left, right, wanted) in [
        (&[3][..], &[3][..], &[][..]),
        (&[2, 3], &[3], &[2]),
        (&[3], &[3, 4], &[4]),
        (&[2, 3], &[3, 4], &[2, 4]),
        (&[5, 2, 3], &[3, 4], &[5, 2, 4]),
        (&[5, 2, 3], &[5, 3, 4], &[5, 2, 4]),
        (&[2, 5, 2, 3], &[5, 3, 4], &[2, 5, 2, 4]),
        (&[5, 2, 3], &[3], &[5, 2]),
    ] {
        let (x, y) = (of(left), of(right));
        let out = call("matmul", &[(&x).into(), (&y).into()]);
        assert_eq!(out.size(), wanted, "{left:?} · {right:?}");
        // The first element: the first row by the first column.
        let k = *left.last().unwrap();
        let step = if right.len() == 1 { 1 } else { right[right.len() - 1] };
        let first: f64 = (0..k).map(|i| (i as f64 - 2.0) * ((i * step) as f64 - 2.0)).sum();
        assert_eq!(
            f64::from_ne_bytes(out.to_bytes().unwrap()[..8].try_into().unwrap()),
            first,
            "{left:?} · {right:?}"
        );
    }
    let error = arithmetic().call("matmul", &[(&of(&[2, 3])).into(), (&of(&[2, 3])).into()]).unwrap_err();
    assert_eq!(error.to_string(), "matmul: inner sizes 3 and 2 differ: [2, 3] · [2, 3]");
}

#[test]
fn a_missing_kernel_is_reported_with_those_that_exist() {
    let (x, y) = (DynTensor::from(Tensor::from([1.0_f32])), DynTensor::from(Tensor::from([1_i32])));
    let error = arithmetic().call("add", &[(&x).into(), (&y).into()]).unwrap_err().to_string();
    let (start, there) = (
        "dispatch: no kernel of add for (f32 of rank 1 on Cpu, i32 of rank 1 on Cpu) with keys {CPU}; there \
         are: ",
        "CPU (f32, f32)",
    );
    assert!(error.starts_with(start) && error.contains(there), "{error}");
    let error = arithmetic().call("ad", &[(&x).into()]).unwrap_err().to_string();
    assert!(
        error.starts_with("dispatch: no operator \"ad\"; there are: ") && error.contains(" add, "),
        "{error}"
    );
    let meta = DynTensor::zeros(DType::F32, &[1], &Meta::new()).unwrap();
    assert!(
        arithmetic()
            .call("add", &[(&meta).into(), (&meta).into()])
            .unwrap_err()
            .to_string()
            .contains("keys {Meta}")
    );
    assert!(
        arithmetic()
            .call("add", &[DynTensor::undefined()].each_ref().map(Argument::from))
            .unwrap_err()
            .to_string()
            .contains("keys {}")
    );
}

#[test]
fn kernels_are_ordered_by_key_and_may_call_those_below() {
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>().unwrap();
    let x = DynTensor::from(Tensor::from([1.0_f32, 2.0]));
    // A kernel above all others sees the call first, then lets it through.
    let traced = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = traced.clone();
    let trace = Kernel::boxed(&[Class::Operand, Class::Operand], move |call, arguments| {
        assert_eq!(call.name(), "add");
        seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        call.below(arguments)
    });
    dispatcher.register("add", DispatchKey::Named, trace).unwrap();
    let named = x.share_data().with_names(&["row"]).unwrap();
    assert!(dispatcher.call("add", &[(&named).into(), (&named).into()]).is_ok());
    assert_eq!(traced.load(std::sync::atomic::Ordering::SeqCst), 1);
    dispatcher.call("add", &[(&x).into(), (&x).into()]).unwrap();
    assert_eq!(traced.load(std::sync::atomic::Ordering::SeqCst), 1);
    // Falling through.
    dispatcher.fall_through("mul", DispatchKey::Named).unwrap();
    let out = dispatcher.call("mul", &[(&named).into(), (&named).into()]).unwrap();
    assert!(out.names().is_empty() && dispatcher.fall_through("no", DispatchKey::Named).is_err());
    // A registered kernel must agree with those that exist.
    let one = Kernel::of_one::<View<f32, 1>, _>(|x| x.neg());
    let error = dispatcher.register("add", DispatchKey::CPU, one).unwrap_err().to_string();
    assert_eq!(error, "dispatch: add takes [Operand, Operand], and a kernel (f32 of rank 1) does not");
    let same = || Kernel::of_one::<View<f32, 1>, _>(|x| x.neg());
    dispatcher.register("own", DispatchKey::CPU, same()).unwrap();
    assert_eq!(
        dispatcher.register("own", DispatchKey::CPU, same()).unwrap_err().to_string(),
        "dispatch: own has a kernel (f32 of rank 1) for CPU"
    );
    dispatcher.register("own", DispatchKey::CPU, Kernel::of_one::<View<f32, 2>, _>(|x| x.exp())).unwrap();
    dispatcher.register("own", DispatchKey::CPU, Kernel::of_one::<Any, _>(|x: &DynTensor| x.copy())).unwrap();
    let out = dispatcher.call("own", &[(&x).into()]).unwrap();
    assert_eq!(out.downcast::<f32, 1, Cpu>().unwrap().to_vec().unwrap(), [-1.0, -2.0]);
    assert_eq!(
        dispatcher.call("own", &[(&DynTensor::from(Tensor::from([true]))).into()]).unwrap().dtype(),
        DType::Bool
    );
}

#[test]
fn conjugates_and_negatives_are_lazy_and_resolved_on_demand() {
    let dispatcher = {
        let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>().unwrap();
        let product = Kernel::of_two::<View<Complex<f64>, 1>, View<Complex<f64>, 1>, _>(|x, y| x.mul(y));
        dispatcher.register("product", DispatchKey::CPU, product).unwrap();
        dispatcher
    };
    let mut dispatcher = dispatcher;
    let values = [Complex::new(1.0, 2.0), Complex::new(0.0, -1.0)];
    let x = DynTensor::from(Tensor::from(values));
    let lazy = x.conjugate().negative().unwrap();
    assert!(lazy.shares_memory_with(&x) && lazy.is_conjugate() && lazy.is_negative());
    assert_eq!(
        lazy.key_set(),
        DispatchKeySet::of(&[DispatchKey::CPU, DispatchKey::Conjugate, DispatchKey::Negative])
    );
    assert_eq!(lazy.conjugate().negative().unwrap().key_set(), DispatchKeySet::of(&[DispatchKey::CPU]));
    // Nobody reads past the marks.
    assert!(lazy.to_bytes().is_err() && lazy.copy().is_err() && lazy.as_bytes().is_none());
    assert!(lazy.downcast_ref::<Complex<f64>, 1, Cpu>().unwrap_err().to_string().contains("a lazy view"));
    let resolved = lazy.resolved::<Cpu>().unwrap().downcast::<Complex<f64>, 1, Cpu>().unwrap();
    assert_eq!(resolved.to_vec().unwrap(), values.map(|v| -v.conj()));
    // Views keep the marks, and operators see through them.
    let second = lazy.ranged(0, 1, 2, 1).unwrap();
    let out = dispatcher.call("product", &[(&second).into(), (&second).into()]).unwrap();
    assert_eq!(out.downcast::<Complex<f64>, 1, Cpu>().unwrap().to_vec().unwrap(), [Complex::new(-1.0, 0.0)]);
    // A kernel of the key itself is asked first: the conjugate of a product needs no resolving.
    dispatcher
        .register(
            "flag",
            DispatchKey::Conjugate,
            Kernel::of_one::<Any, _>(|x: &DynTensor| Ok::<_, Error>(x.conjugate())),
        )
        .unwrap();
    assert!(dispatcher.call("flag", &[(&x.conjugate()).into()]).unwrap().shares_memory_with(&x));
    let real = DynTensor::from(Tensor::from([1.0_f32]));
    assert!(!real.conjugate().is_conjugate() && DynTensor::from(Tensor::from([true])).negative().is_err());
}

#[test]
fn casts_at_run_time_are_the_typed_ones() {
    for from in DType::ALL {
        let x = DynTensor::from(Tensor::from([0.0, 1.0, -1.0, 300.7, 1e10, f64::NAN]))
            .cast::<Cpu>(*from)
            .unwrap();
        for to in DType::ALL {
            struct Typed<'a>(&'a DynTensor, DType);
            impl rankform::dynamic::ElementVisitor for Typed<'_> {
                type Output = Vec<u8>;
                fn visit<T: Element>(self) -> Vec<u8> {
                    struct To<'a, T>(&'a DynTensor, std::marker::PhantomData<T>);
                    impl<T: Element> rankform::dynamic::ElementVisitor for To<'_, T> {
                        type Output = Vec<u8>;
                        fn visit<U: Element>(self) -> Vec<u8> {
                            DynTensor::from(self.0.downcast_ref::<T, 1, Cpu>().unwrap().cast::<U>().unwrap())
                                .to_bytes()
                                .unwrap()
                        }
                    }
                    self.1.visit(To::<T>(self.0, std::marker::PhantomData))
                }
            }
            let wanted = x.dtype().visit(Typed(&x, *to));
            assert_eq!(x.cast::<Cpu>(*to).unwrap().to_bytes().unwrap(), wanted, "{from} to {to}");
        }
    }
}

#[test]
fn names_of_axes_are_checked_and_go_on() {
    let of = |size: &[usize], names: &[&str]| {
        DynTensor::zeros(DType::F32, size, &Cpu).unwrap().with_names(names).unwrap()
    };
    let (images, weights) = (of(&[2, 3, 4], &["batch", "row", "column"]), of(&[4], &["column"]));
    let sum = call("add", &[(&images).into(), (&weights).into()]);
    assert_eq!(sum.names(), ["batch", "row", "column"]);
    let error = arithmetic().call("add", &[(&images).into(), (&of(&[4], &["row"])).into()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "names: axis \"column\" of [\"batch\", \"row\", \"column\"] meets axis \"row\" of [\"row\"]"
    );
    let total = call("sum", &[(&images).into(), (&[images.axis("row").unwrap()][..]).into()]);
    assert_eq!((total.names(), total.size()), (&["batch".to_string(), "column".into()][..], &[2, 4][..]));
    let product = call("matmul", &[(&images).into(), (&of(&[4, 5], &["column", "unit"])).into()]);
    assert_eq!(product.names(), ["batch", "row", "unit"]);
    assert!(
        arithmetic().call("matmul", &[(&images).into(), (&of(&[4, 5], &["unit", "column"])).into()]).is_err()
    );
    let turned = images.permuted(&[2, 0, 1]).unwrap();
    assert_eq!(
        (turned.names(), images.at(1, 0).unwrap().names()),
        (
            &["column".to_string(), "batch".into(), "row".into()][..],
            &["batch".to_string(), "column".into()][..]
        )
    );
    assert_eq!(images.align_to(&["column", "channel", "row", "batch"]).unwrap().size(), [4, 1, 3, 2]);
    assert!(images.align_to(&["row", "batch"]).is_err() && of(&[2], &[]).align_to(&["a"]).is_err());
    assert!(DynTensor::zeros(DType::F32, &[2, 2], &Cpu).unwrap().with_names(&["a", "a"]).is_err());
    assert!(!of(&[1], &[]).has_extra() && images.has_extra());
}

#[test]
fn sparse_and_quantized_tensors_reach_the_kernels_of_their_keys() {
    let dense = Tensor::from([[0.0_f32, 2.0, 0.0], [3.0, 0.0, 0.0]]);
    let sparse = || DynTensor::from_sparse(SparseTensor::from_dense(&dense).unwrap()).unwrap();
    let (x, y) = (sparse(), DynTensor::from(Tensor::from([[1.0_f32], [10.0], [100.0]])));
    assert_eq!(x.key_set(), DispatchKeySet::of(&[DispatchKey::SparseCPU]));
    assert_eq!((x.size(), x.dtype(), x.rank()), (&[2, 3][..], DType::F32, 2));
    let product: Tensor<f32, 2> = call("matmul", &[(&x).into(), (&y).into()]).try_into().unwrap();
    assert_eq!(product, Tensor::from([[20.0], [3.0]]));
    let sum = call("add", &[(&x).into(), (&sparse()).into()]);
    assert_eq!(sum.as_sparse::<f32, 2, Cpu>().unwrap().values().to_vec().unwrap(), [4.0, 6.0]);
    let halves = DynTensor::from(Tensor::full([2, 3], 0.5_f32, &Cpu).unwrap());
    let scaled = call("mul", &[(&x).into(), (&halves).into()]);
    let whole: Tensor<f32, 2> = call("to_dense", &[(&scaled).into()]).try_into().unwrap();
    assert_eq!(whole, Tensor::from([[0.0, 1.0, 0.0], [1.5, 0.0, 0.0]]));
    // No kernel: the sparse key decides, and no missing data is read.
    let error = arithmetic().call("exp", &[(&x).into()]).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "dispatch: no kernel of exp for (Sparse f32 of rank 2 on Cpu) with keys {SparseCPU}; "
        ),
        "{error}"
    );
    assert!(x.to_bytes().unwrap_err().to_string().contains("no elements by strides"));
    assert!(
        x.downcast_ref::<f32, 2, Cpu>().is_err()
            && x.share_data().downcast::<f32, 2, Cpu>().is_err()
            && x.copy().is_err()
    );
    assert!(x.reshaped(&[3, 2]).unwrap_err().to_string().contains("a handle on one that has none: Sparse"));
    let mut writable = sparse();
    assert!(writable.mutable_data::<f32, 2, Cpu>().is_err() && writable.is_frozen());
    assert!(
        x.as_sparse::<f64, 2, Cpu>()
            .map(drop)
            .unwrap_err()
            .to_string()
            .contains("expected a sparse tensor, f64 of rank 2, found a sparse")
    );
    // Data of a backend is kept apart from the data behind a handle, and is never taken for it.
    let held = sparse().with_backend_data(7_u8).unwrap();
    assert_eq!(call("add", &[(&held).into(), (&x).into()]).as_sparse::<f32, 2, Cpu>().unwrap().kept(), 2);
    let posing = halves.share_data().with_backend_data(SparseTensor::from_dense(&dense).unwrap()).unwrap();
    let error = arithmetic().call("add", &[(&x).into(), (&posing).into()]).unwrap_err().to_string();
    assert!(
        error.contains("no kernel of add for (Sparse f32 of rank 2 on Cpu, f32 of rank 2 on Cpu)"),
        "{error}"
    );
    // Another element, or no dense matrix, with a sparse one: no kernel, and the error lists those that
    // exist.
    let double = DynTensor::zeros(DType::F64, &[2, 3], &Cpu).unwrap();
    for (name, other) in [("mul", &double), ("matmul", &double), ("mul", &x)] {
        let error = arithmetic().call(name, &[(&x).into(), other.into()]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("dispatch: no kernel of {name} for (Sparse f32 of rank 2 on Cpu, ")),
            "{error}"
        );
        assert!(error.contains("SparseCPU (sparse f32 of rank 2, f32 of rank 2)"), "{error}");
    }
    // Names go on, by way of their own key.
    let named = sparse().with_names(&["row", "column"]).unwrap();
    assert_eq!(named.key_set(), DispatchKeySet::of(&[DispatchKey::SparseCPU, DispatchKey::Named]));
    assert_eq!(call("matmul", &[(&named).into(), (&y).into()]).names(), ["row", ""]);

    let real = Tensor::from([-1.0_f32, 0.5]);
    let integers =
        QuantizedTensor::<QInt8, 1>::quantize(&real, Quantization::per_tensor(0.5, 3).unwrap()).unwrap();
    let q = DynTensor::from_quantized(integers).unwrap();
    assert_eq!((q.key_set(), q.dtype()), (DispatchKeySet::of(&[DispatchKey::QuantizedCPU]), DType::QI8));
    assert_eq!(call("dequantize", &[(&q).into()]).downcast::<f32, 1, Cpu>().unwrap(), real);
    // Kernels of a user's own.
    let mut dispatcher = Dispatcher::new();
    let twice = Kernel::of_one::<Quantized<QInt8, 1>, _>(|x| {
        DynTensor::from_quantized(x.add(x, Quantization::per_tensor(1.0, 0)?)?)
    });
    dispatcher.register("twice", DispatchKey::QuantizedCPU, twice).unwrap();
    dispatcher
        .register(
            "twice",
            DispatchKey::SparseCPU,
            Kernel::of_one::<Sparse<f32, 2>, _>(|x| DynTensor::from_sparse(x.add(x)?)),
        )
        .unwrap();
    let out = dispatcher.call("twice", &[(&q).into()]).unwrap();
    assert_eq!(out.as_quantized::<QInt8, 1, Cpu>().unwrap().int_repr().to_vec().unwrap(), [-2, 1]);
    assert_eq!(
        dispatcher.call("twice", &[(&x).into()]).unwrap().as_sparse::<f32, 2, Cpu>().unwrap().kept(),
        2
    );
    let error = dispatcher.call("twice", &[(&y).into()]).unwrap_err().to_string();
    assert!(
        error.contains("QuantizedCPU (quantized qi8 of rank 1), SparseCPU (sparse f32 of rank 2)"),
        "{error}"
    );
}

#[test]
fn elements_are_promoted_only_where_that_was_asked_for() {
    let (whole, real) =
        (DynTensor::from(Tensor::from([1_i32, 2])), DynTensor::from(Tensor::from([0.5_f64, 0.25])));
    let plain = arithmetic();
    assert!(plain.call("add", &[(&whole).into(), (&real).into()]).is_err());
    // Half of a whole number is no whole number, and 3e9 no i32.
    let error = plain.call("mul", &[(&whole).into(), 0.5.into()]).unwrap_err().to_string();
    assert!(error.contains("no kernel of mul for (i32 of rank 1 on Cpu, the number 0.5)"), "{error}");
    assert!(
        plain.call("add", &[(&whole).into(), 3e9.into()]).is_err()
            && plain.call("add", &[(&whole).into(), f64::NAN.into()]).is_err()
    );
    assert_eq!(
        plain.call("add", &[(&whole).into(), 3.0.into()]).unwrap().downcast::<i32, 1, Cpu>().unwrap(),
        Tensor::from([4, 5])
    );
    let mut dispatcher = Dispatcher::with_arithmetic::<Cpu>().unwrap();
    dispatcher.promote::<Cpu>();
    let out = dispatcher.call("add", &[(&whole).into(), (&real).into()]).unwrap();
    assert_eq!(out.downcast::<f64, 1, Cpu>().unwrap(), Tensor::from([1.5, 2.25]));
    let out = dispatcher.call("mul", &[(&whole).into(), 0.5.into()]).unwrap();
    assert_eq!(out.downcast::<f32, 1, Cpu>().unwrap(), Tensor::from([0.5, 1.0]));
    // A number that no type holds stays an error, as does an operator without a kernel in the common type.
    let wide = |dtype| DynTensor::zeros(dtype, &[2], &Cpu).unwrap();
    let error =
        dispatcher.call("add", &[(&wide(DType::U64)).into(), (&whole).into()]).unwrap_err().to_string();
    assert!(error.contains("no element type holds both"), "{error}");
    // The error names the operands passed, not the types they were cast to.
    let error = dispatcher
        .call("add", &[(&wide(DType::F16)).into(), (&wide(DType::U8)).into()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("no kernel of add for (f16 of rank 1 on Cpu, u8 of rank 1 on Cpu)"), "{error}");
    // A number counts by its kind, not by its value.
    let out = dispatcher.call("mul", &[(&wide(DType::I64)).into(), 0.5.into()]).unwrap();
    assert_eq!(out.dtype(), DType::F32);
    let error = dispatcher.call("add", &[(&whole).into(), 3e9.into()]).unwrap_err().to_string();
    assert!(error.contains("no kernel of add for (i32 of rank 1 on Cpu, the number 3000000000)"), "{error}");
    let meta = DynTensor::zeros(DType::F32, &[2], &Meta::new()).unwrap();
    assert!(dispatcher.call("add", &[(&meta).into(), (&whole).into()]).is_err());
}

#[test]
fn errors_show_the_sizes_of_the_operands_themselves() -> Result<()> {
    let dispatcher = Dispatcher::with_arithmetic::<Cpu>()?;
    let zeros = |sizes: &[usize]| DynTensor::zeros(DType::F32, sizes, &Cpu);
    let (empty, deep, x, y) = (zeros(&[0, 3])?, zeros(&[1; 9])?, zeros(&[2, 2])?, zeros(&[3])?);
    let texts = [
        (
            dispatcher.call("max", &[(&empty).into(), (&[0]).into()]),
            "max: no elements to reduce in sizes [0, 3]",
        ),
        (
            dispatcher.call("sum", &[(&deep).into(), (&[0]).into()]),
            "sum: expected f32 of at most 8 axes on Cpu, found f32 of rank 9 on Cpu",
        ),
        (dispatcher.call("add", &[(&x).into(), (&y).into()]), "add: sizes [2, 2] and [3] do not broadcast"),
    ];
    for (result, text) in texts {
        assert_eq!(result.unwrap_err().to_string(), text);
    }
    Ok(())
}
