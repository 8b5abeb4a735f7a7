//! The inference server Neso in a Rust program: a safe layer over `libtritonserver`.
//!
//! ```no_run
//! use neso::{Options, Request, Server, Tensor};
//!
//! # fn main() -> neso::Result<()> {
//! let server = Server::new(&Options::new().repository("models").model("identity"))?;
//! let input = Tensor::new(&[3], vec![1.0f32, 2.0, 3.0])?;
//! let response = Request::new(&server, "identity").input("X", input).infer()?;
//! println!("{:?}", response.output("Y")?.values::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! Objects end when they are dropped. A [`Server`] is a handle that may be cloned and used by
//! every thread; it ends with the last of its handles and of what holds one: [`Request`]s,
//! [`Responses`] and output tensors. Inputs are not copied: a request in flight holds them until
//! the server lets go of it, whatever the program drops meanwhile.
//!
//! [`sys`] has the functions of the C interface as they are.

mod allocator;
mod callback;
mod error;
mod flight;
mod options;
mod request;
mod response;
mod server;
pub mod sys;
mod tensor;

pub use error::{Error, ErrorCode, Result};
pub use flight::Responses;
pub use options::{ControlMode, Options};
pub use request::{Parameter, Request};
pub use response::Response;
pub use server::Server;
pub use tensor::{Datatype, Element, Number, Tensor};
