//! Sends a request to the model `identity` of a repository, and takes the responses of the
//! decoupled model `repeat` as they come. Usage: infer REPOSITORY

use neso::{ErrorCode, Options, Request, Server, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repository = std::env::args().nth(1).ok_or("usage: infer REPOSITORY")?;
    let options = Options::new()
        .repository(repository)
        .model("identity")
        .model("repeat");
    let server = Server::new(&options)?;

    let input = Tensor::new(&[3], vec![1.0f32, 2.0, 3.0])?;
    let request = Request::new(&server, "identity").input("X", input);
    let response = request.infer()?;
    println!("Y = {:?}", response.output("Y")?.values::<f32>()?);

    let responses = Request::new(&server, "repeat")
        .input("IN", Tensor::new(&[3], vec![7i32, 8, 9])?)
        .input("DELAY", Tensor::new(&[3], vec![0u32; 3])?)
        .input("WAIT", Tensor::new(&[1], vec![0u32])?)
        .send()?;
    for response in responses {
        println!("OUT = {:?}", response?.output("OUT")?.values::<i32>()?);
    }

    match Request::new(&server, "nobody").infer() {
        Err(e) if e.code() == ErrorCode::NotFound => println!("there is no model nobody"),
        other => println!("{other:?}"),
    }
    Ok(())
}
