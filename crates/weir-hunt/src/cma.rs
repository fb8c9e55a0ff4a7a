//! CMA-ES: a cloud of points that moves to where the last ones did best, takes the shape in which they lay, and grows or
//! shrinks as its steps agree or cancel out.
//!
//! N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772: equations by their numbers, constants of its
//! table 1 without negative weights.

use weir_core::Random;

/// The size of the cloud at first, as a part of each range.
const SIGMA: f64 = 0.3;
/// Below this the cloud is a point: values have three digits.
const LEAST: f64 = 1e-3;
/// Rotations of all pairs of axes until what is left beside the diagonal is nothing.
const SWEEPS: usize = 30;

/// The cloud.
pub(crate) struct Cma {
    lambda: usize,
    weights: Vec<f64>,
    /// Effective number of parents, mu_eff.
    mass: f64,
    mean: Vec<f64>,
    sigma: f64,
    /// The covariance matrix C and what it is made of: axes in columns, and the length of each.
    covariance: Vec<Vec<f64>>,
    axes: Vec<Vec<f64>>,
    lengths: Vec<f64>,
    /// The evolution paths of C and of sigma.
    path: Vec<f64>,
    path_sigma: Vec<f64>,
    generation: i32,
}

impl Cma {
    /// A cloud around `mean` of so many points.
    pub(crate) fn new(mean: Vec<f64>, lambda: usize) -> Self {
        let n = mean.len();
        let parents = lambda / 2;
        // (49), the positive ones
        let raw: Vec<f64> = (1..=parents)
            .map(|rank| libm::log((lambda as f64 + 1.0) / 2.0) - libm::log(rank as f64))
            .collect();
        let sum: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|weight| weight / sum).collect();
        let unit = |row: usize| (0..n).map(|column| if row == column { 1.0 } else { 0.0 }).collect();
        let identity: Vec<Vec<f64>> = (0..n).map(unit).collect();
        Self {
            lambda,
            mass: 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>(),
            weights,
            mean,
            sigma: SIGMA,
            covariance: identity.clone(),
            axes: identity,
            lengths: vec![1.0; n],
            path: vec![0.0; n],
            path_sigma: vec![0.0; n],
            generation: 0,
        }
    }

    /// Points of the cloud, of which some lie beyond 0 or 1.
    pub(crate) fn ask(&self, random: &mut Random) -> Vec<Vec<f64>> {
        let mut point = || {
            let draw: Vec<f64> = self.lengths.iter().map(|length| length * normal(random)).collect();
            let step = multiply(&self.axes, &draw);
            self.mean.iter().zip(step).map(|(mean, step)| mean + self.sigma * step).collect()
        };
        (0..self.lambda).map(|_| point()).collect()
    }

    /// Learns from points, the best first.
    pub(crate) fn tell(&mut self, ranked: &[Vec<f64>]) {
        let n = self.mean.len() as f64;
        let (mass, generation) = (self.mass, self.generation + 1);
        let rate_sigma = (mass + 2.0) / (n + mass + 5.0);
        let damping = 1.0 + 2.0 * (((mass - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + rate_sigma;
        let rate = (4.0 + mass / n) / (n + 4.0 + 2.0 * mass / n);
        let rank_one = 2.0 / ((n + 1.3).powi(2) + mass);
        let rank_mu =
            (1.0 - rank_one).min(2.0 * (0.25 + mass + 1.0 / mass - 2.0) / ((n + 2.0).powi(2) + mass));
        // The length of a normal vector in the mean.
        let usual = n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n));

        let steps: Vec<Vec<f64>> = ranked
            .iter()
            .take(self.weights.len())
            .map(|point| point.iter().zip(&self.mean).map(|(to, from)| (to - from) / self.sigma).collect())
            .collect();
        // (41), (42)
        let mut moved = vec![0.0; self.mean.len()];
        for (weight, step) in self.weights.iter().zip(&steps) {
            moved.iter_mut().zip(step).for_each(|(sum, part)| *sum += weight * part);
        }
        self.mean.iter_mut().zip(&moved).for_each(|(mean, by)| *mean += self.sigma * by);
        // (43), (44)
        let even: Vec<f64> = transposed(&self.axes, &moved)
            .iter()
            .zip(&self.lengths)
            .map(|(along, length)| along / length)
            .collect();
        let even = multiply(&self.axes, &even);
        let gain = (rate_sigma * (2.0 - rate_sigma) * mass).sqrt();
        self.path_sigma
            .iter_mut()
            .zip(even)
            .for_each(|(path, by)| *path = (1.0 - rate_sigma) * *path + gain * by);
        let length = self.path_sigma.iter().map(|part| part * part).sum::<f64>().sqrt();
        self.sigma *= libm::exp((rate_sigma / damping) * (length / usual - 1.0));
        // (45), and the case in which the path stands still
        let is_short =
            length / (1.0 - (1.0 - rate_sigma).powi(2 * generation)).sqrt() < (1.4 + 2.0 / (n + 1.0)) * usual;
        let gain = if is_short { (rate * (2.0 - rate) * mass).sqrt() } else { 0.0 };
        self.path.iter_mut().zip(&moved).for_each(|(path, by)| *path = (1.0 - rate) * *path + gain * by);
        // (47)
        let lost = if is_short { 0.0 } else { rank_one * rate * (2.0 - rate) };
        for row in 0..self.mean.len() {
            for column in 0..self.mean.len() {
                let spread: f64 = self
                    .weights
                    .iter()
                    .zip(&steps)
                    .map(|(weight, step)| weight * step[row] * step[column])
                    .sum();
                let cell = &mut self.covariance[row][column];
                *cell = (1.0 - rank_one - rank_mu + lost) * *cell
                    + rank_one * self.path[row] * self.path[column]
                    + rank_mu * spread;
            }
        }
        (self.axes, self.lengths) = axes(&self.covariance);
        self.generation = generation;
    }

    /// Whether nothing more comes of it.
    pub(crate) fn is_over(&self) -> bool {
        let longest = self.lengths.iter().copied().fold(0.0, f64::max);
        self.sigma * longest < LEAST || !self.sigma.is_finite()
    }
}

/// A normal number, by Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - random.unit())).sqrt();
    radius * libm::cos(std::f64::consts::TAU * random.unit())
}

fn multiply(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

fn transposed(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    (0..vector.len())
        .map(|column| matrix.iter().zip(vector).map(|(row, by)| row[column] * by).sum())
        .collect()
}

/// The axes of a symmetric matrix in columns, and the root of its value along each: Jacobi's rotations.
fn axes(matrix: &[Vec<f64>]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let n = matrix.len();
    let mut a = matrix.to_vec();
    let mut axes: Vec<Vec<f64>> =
        (0..n).map(|row| (0..n).map(|column| if row == column { 1.0 } else { 0.0 }).collect()).collect();
    for _ in 0..SWEEPS {
        let beside: f64 =
            (0..n).flat_map(|p| (p + 1..n).map(move |q| (p, q))).map(|(p, q)| a[p][q] * a[p][q]).sum();
        if beside < 1e-24 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let ratio = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                let tangent = ratio.signum() / (ratio.abs() + (ratio * ratio + 1.0).sqrt());
                let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
                let sine = tangent * cosine;
                for row in &mut a {
                    (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
                }
                let (above, below) = a.split_at_mut(q);
                for (up, down) in above[p].iter_mut().zip(&mut below[0]) {
                    (*up, *down) = (cosine * *up - sine * *down, sine * *up + cosine * *down);
                }
                for row in &mut axes {
                    (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
                }
            }
        }
    }
    let lengths = (0..n).map(|place| a[place][place].max(1e-16).sqrt()).collect();
    (axes, lengths)
}

#[cfg(test)]
mod tests {
    use weir_core::Seed;

    use super::{Cma, axes};

    #[test]
    fn axes_make_the_matrix_again() {
        let matrix = vec![vec![4.0, 1.0, -2.0], vec![1.0, 2.0, 0.0], vec![-2.0, 0.0, 3.0]];
        let (axes, lengths) = axes(&matrix);
        for row in 0..3 {
            for column in 0..3 {
                let made: f64 = (0..3).map(|k| axes[row][k] * lengths[k].powi(2) * axes[column][k]).sum();
                assert!((made - matrix[row][column]).abs() < 1e-9, "{row} {column}: {made}");
            }
        }
    }

    /// Rosenbrock's valley, which is long, bent and narrow, with its end at 0.6 in each of five coordinates. What has
    /// no model of the shape does not get there.
    #[test]
    fn it_follows_a_bent_valley_to_its_end() {
        let value = |point: &Vec<f64>| -> f64 {
            let at: Vec<f64> = point.iter().map(|unit| unit * 5.0 - 2.0).collect();
            at.windows(2).map(|w| 100.0 * (w[1] - w[0] * w[0]).powi(2) + (1.0 - w[0]).powi(2)).sum()
        };
        let ended = (0..5).filter(|seed| {
            let mut random = Seed { seed: *seed, run: 0 }.stream("valley");
            let mut cma = Cma::new(vec![0.5; 5], 12);
            let mut best = f64::INFINITY;
            for _ in 0..400 {
                let mut points = cma.ask(&mut random);
                points.sort_by(|a, b| value(a).total_cmp(&value(b)));
                best = best.min(value(&points[0]));
                cma.tell(&points);
            }
            best < 1e-6
        });
        assert!(ended.count() >= 4);
    }
}
