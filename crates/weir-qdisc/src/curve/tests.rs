use super::{ONE, Smoothed, exceeds, ramp};
use crate::curvy_red::check_curve;
use weir_core::{Duration, Seed};

const C: Duration = Duration::from_millis(500);
const L: Duration = Duration::from_micros(62_500);

#[test]
fn worked_points_of_the_paper() {
    // S_C = 1 and S_L = 4: p_L in per cent, p_C in hundredths of a per cent.
    for (us, p_l, p_c) in
        [(20_000, 32.0, 16.0), (50_000, 80.0, 100.0), (62_500, 100.0, 156.25), (100_000, 100.0, 400.0)]
    {
        let delay = Duration::from_micros(us);
        let part = |range| ramp(delay, Duration::ZERO, range) as f64 / ONE as f64;
        assert!((part(L) * 100.0 - p_l).abs() < 1e-6, "{us}");
        assert!((part(C) * part(C) * 1e4 - p_c).abs() < 1e-5, "{us}");
    }
    assert_eq!(ramp(C, Duration::ZERO, C), ONE);
    assert_eq!(ramp(Duration::from_millis(3), Duration::from_millis(5), C), 0);
}

#[test]
fn so_many_random_numbers_are_the_exponent() {
    let mut random = Seed::default().stream("test");
    let part = ONE / 10 * 3;
    // 0.3 to the power of 1, 2 and 4, within three standard errors and more.
    for (curviness, low, high) in [(1, 29_500, 30_500), (2, 8_700, 9_300), (4, 720, 900)] {
        let count = (0..100_000).filter(|_| exceeds(part, curviness, &mut random)).count();
        assert!((low..high).contains(&count), "{curviness}: {count}");
    }
    assert!((0..1000).all(|_| exceeds(ONE, 2, &mut random) && !exceeds(0, 1, &mut random)));
}

#[test]
fn smoothing_is_a_shift() {
    let mut smoothed = Smoothed::default();
    let ms = Duration::from_millis;
    assert_eq!(smoothed.add(ms(32), 5), ms(1));
    assert_eq!(smoothed.add(ms(33), 5), ms(2));
    assert_eq!(smoothed.add(Duration::ZERO, 5), Duration::from_nanos(1_937_500));
    for _ in 0..500 {
        smoothed.add(Duration::ZERO, 5);
    }
    assert_eq!(smoothed.get(), Duration::ZERO);
}

#[test]
fn the_smallest_weight_that_is_accepted_follows_to_a_millisecond() {
    let (mut smoothed, delay) = (Smoothed::default(), Duration::from_millis(20));
    for _ in 0..5 << 20 {
        smoothed.add(delay, 20);
    }
    assert!(smoothed.get() + Duration::from_nanos(1 << 20) >= delay, "{}", smoothed.get());
    assert!(check_curve(&[], 20).is_ok());
    assert!(check_curve(&[], 21).unwrap_err().to_string().starts_with("ewma: "));
}
