//! What a run came to: its [`result`], the [`tables`] made of it, the files it is kept in ([`output`], [`read`](mod@read),
//! [`pcapng`]), the [`summary`] for a terminal and the [`page`] for a browser; what a number is over several
//! ([`spread`]), and what these say of a sentence ([`verdict`]).

pub mod output;
pub mod page;
pub mod pcapng;
pub mod read;
pub mod result;
pub mod spread;
pub mod statement;
pub mod summary;
pub mod tables;
pub mod verdict;
