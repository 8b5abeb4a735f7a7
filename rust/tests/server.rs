//! The crate over the library as it is built: models of the backends that are in it.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::thread;
use std::time::Duration;

use neso::{Datatype, ErrorCode, Options, Request, Response, Responses, Server, Tensor};

const IDENTITY: &str = r#"
backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"#;
const REPEAT: &str = r#"
backend: "repeat"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
input { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
"#;
/// Longer than any test.
const HOUR_MS: u32 = 3_600_000;
/// When what has not happened will not.
const PATIENCE: Duration = Duration::from_secs(120);

/// A model repository that ends with the test.
struct Repository(PathBuf);

impl Repository {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("neso-rust-{}-{number}", std::process::id());
        let top = std::env::temp_dir().join(name);
        for (model, config) in [("identity", IDENTITY), ("repeat", REPEAT)] {
            fs::create_dir_all(top.join(model).join("1")).unwrap();
            fs::write(top.join(model).join("config.pbtxt"), config).unwrap();
        }
        Self(top)
    }

    fn options(&self) -> Options {
        Options::new()
            .repository(&self.0)
            .model("identity")
            .model("repeat")
            .exit_timeout(Duration::from_secs(3600))
            .log(false, true, true)
    }

    fn server(&self) -> Server {
        Server::new(&self.options()).unwrap()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::new(&[values.len() as i64], values.to_vec()).unwrap()
}

/// A request to `repeat` whose n responses come behind these delays.
fn repeat(server: &Server, delays: Tensor) -> Request {
    let n = delays.shape()[0];
    Request::new(server, "repeat")
        .input("IN", Tensor::new(&[n], (0..n as i32).collect()).unwrap())
        .input("DELAY", delays)
        .input("WAIT", Tensor::new(&[1], vec![0u32]).unwrap())
}

/// Delays of milliseconds that say when they are dropped, and then do as they are told.
struct Watched {
    bytes: Vec<u8>,
    dropped: Sender<()>,
    panics: bool,
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bytes.fill(0xff);
        let _ = self.dropped.send(());
        assert!(!self.panics, "an owner that panics, as the test wants it");
    }
}

fn watched(delays: &[u32], dropped: Sender<()>, panics: bool) -> Tensor {
    let owner = Watched {
        bytes: delays.iter().flat_map(|d| d.to_ne_bytes()).collect(),
        dropped,
        panics,
    };
    Tensor::from_owner(Datatype::Uint32, &[delays.len() as i64], owner).unwrap()
}

#[test]
fn handles_go_to_every_thread() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Server>();
    sync::<Server>();
    send::<Request>();
    sync::<Request>();
    send::<Response>();
    sync::<Response>();
    send::<Tensor>();
    sync::<Tensor>();
    send::<Responses>();
}

#[test]
fn what_goes_in_comes_out() {
    let repository = Repository::new();
    let server = repository.server();
    let request = Request::new(&server, "identity")
        .version(1)
        .id("seven")
        .input("X", floats(&[1.0, -2.5, 3.0]))
        .output("Y")
        .priority(1)
        .timeout(Duration::from_secs(60))
        .parameter("text", "value")
        .parameter("count", 3i64)
        .parameter("on", true)
        .parameter("part", 0.5);
    let response = request.infer().unwrap();
    assert_eq!(
        (response.model(), response.version(), response.id()),
        ("identity", 1, "seven")
    );
    assert_eq!(response.outputs().len(), 1);
    let y = response.output("Y").unwrap();
    assert_eq!((y.datatype(), y.shape()), (Datatype::Fp32, &[3i64][..]));
    assert_eq!(y.as_slice::<f32>().unwrap(), [1.0, -2.5, 3.0]);
    assert_eq!(
        response.output("Z").unwrap_err().code(),
        ErrorCode::NotFound
    );

    // An output is an input of the next request as it is, and outlives its response.
    let again = Request::new(&server, "identity").input("X", y.clone());
    drop((request, response));
    for _ in 0..2 {
        let response = again.infer().unwrap();
        let y = response.output("Y").unwrap();
        assert_eq!(y.values::<f32>().unwrap(), [1.0, -2.5, 3.0]);
    }
    let empty = Request::new(&server, "identity").input("X", floats(&[]));
    let response = empty.infer().unwrap();
    assert!(response.output("Y").unwrap().bytes().is_empty());
}

#[test]
fn every_datatype() {
    let repository = Repository::new();
    let server = repository.server();
    let check = |config: &str, tensor: Tensor| {
        let config = format!(
            r#"{{"name":"made","backend":"identity","input":[{{"name":"X","data_type":"TYPE_{config}","dims":[-1]}}],
               "output":[{{"name":"Y","data_type":"TYPE_{config}","dims":[-1]}}]}}"#
        );
        server
            .load_with("made", &config, &[("1/any", b"file")])
            .unwrap();
        let response = Request::new(&server, "made")
            .input("X", tensor.clone())
            .infer();
        let response = response.unwrap();
        let y = response.output("Y").unwrap();
        assert_eq!(
            (y.datatype(), y.shape()),
            (tensor.datatype(), tensor.shape()),
            "{config}"
        );
        assert_eq!(y.bytes(), tensor.bytes(), "{config}");
    };
    check("BOOL", Tensor::new(&[2], vec![true, false]).unwrap());
    check("UINT8", Tensor::new(&[2], vec![1u8, 2]).unwrap());
    check("UINT16", Tensor::new(&[2], vec![1u16, 2]).unwrap());
    check("UINT32", Tensor::new(&[2], vec![1u32, 2]).unwrap());
    check("UINT64", Tensor::new(&[2], vec![1u64, 2]).unwrap());
    check("INT8", Tensor::new(&[2], vec![1i8, -2]).unwrap());
    check("INT16", Tensor::new(&[2], vec![1i16, -2]).unwrap());
    check("INT32", Tensor::new(&[2], vec![1i32, -2]).unwrap());
    check("INT64", Tensor::new(&[2], vec![1i64, -2]).unwrap());
    check("FP32", floats(&[1.0, 2.0]));
    check("FP64", Tensor::new(&[2], vec![1f64, -2.0]).unwrap());
    check(
        "FP16",
        Tensor::from_owner(Datatype::Fp16, &[2], [0u8, 60, 0, 64]).unwrap(),
    );
    check(
        "BF16",
        Tensor::from_owner(Datatype::Bf16, &[1], vec![128u8, 63]).unwrap(),
    );
    check(
        "STRING",
        Tensor::from_texts(&[3], &["one", "", "three"]).unwrap(),
    );
}

#[test]
fn decoupled_responses_come_one_by_one() {
    let repository = Repository::new();
    let server = repository.server();
    let request = repeat(&server, Tensor::new(&[4], vec![0u32; 4]).unwrap());
    let mut responses = request.send().unwrap();
    let got: Vec<u32> = responses
        .by_ref()
        .map(|r| r.unwrap().output("IDX").unwrap().values::<u32>().unwrap()[0])
        .collect();
    assert_eq!(got, [0, 1, 2, 3]);
    assert!(responses.next().is_none());
    responses.cancel().unwrap(); // too late, and no error
    let e = request.infer().unwrap_err();
    assert_eq!(e.code(), ErrorCode::Internal);
    assert_eq!(e.message(), "expected a single response, got 4");
}

#[test]
fn errors_have_codes() {
    let repository = Repository::new();
    let server = repository.server();
    let e = Request::new(&server, "nobody").send().unwrap_err();
    assert_eq!(e.code(), ErrorCode::NotFound);
    assert!(e.message().contains("nobody"), "{e}");
    let wrong =
        Request::new(&server, "identity").input("X", Tensor::new(&[1], vec![1i32]).unwrap());
    assert_eq!(wrong.infer().unwrap_err().code(), ErrorCode::InvalidArg);
    let nul = Request::new(&server, "identity").id("a\0b");
    assert_eq!(
        nul.infer().unwrap_err().message(),
        "the request's id has a NUL character"
    );
    let twice = Request::new(&server, "identity")
        .input("X", floats(&[1.0]))
        .input("X", floats(&[1.0]));
    assert_eq!(twice.infer().unwrap_err().code(), ErrorCode::InvalidArg);
    // repeat wants as many delays as values, and says so in a response.
    let unequal = Request::new(&server, "repeat")
        .input("IN", Tensor::new(&[1], vec![1i32]).unwrap())
        .input("DELAY", Tensor::new(&[2], vec![0u32, 0]).unwrap())
        .input("WAIT", Tensor::new(&[1], vec![0u32]).unwrap());
    let all: Vec<_> = unequal.send().unwrap().collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].as_ref().unwrap_err().code(), ErrorCode::InvalidArg);
    let e = Server::new(&Options::new()).unwrap_err();
    assert_eq!(e.code(), ErrorCode::InvalidArg);
    assert_eq!(e.to_string(), "--model-repository must be specified");
    assert!(Server::new(&repository.options().model("nobody")).is_err());
}

/// The server reads inputs as long as it has the request, whatever the program drops.
#[test]
fn inputs_live_until_the_release() {
    let repository = Repository::new();
    let server = repository.server();
    let (sender, dropped) = channel();
    let request = repeat(&server, watched(&[0, 0, HOUR_MS], sender, false));
    let mut responses = request.send().unwrap();
    drop(request);
    assert!(dropped.try_recv().is_err(), "the inputs are gone at once");
    for i in 0..2 {
        let response = responses.next().unwrap().unwrap();
        assert_eq!(
            response.output("IDX").unwrap().values::<u32>().unwrap(),
            [i]
        );
    }
    assert!(
        dropped.try_recv().is_err(),
        "the inputs are gone while the model reads them"
    );
    responses.cancel().unwrap();
    assert!(responses.all(|r| r.is_err()));
    dropped.recv_timeout(PATIENCE).unwrap();
    server.stop().unwrap();
}

/// Nobody waits for responses that nobody can take.
#[test]
fn dropped_responses_cancel_the_request() {
    let repository = Repository::new();
    let server = repository.server();
    let (sender, dropped) = channel();
    let mut responses = repeat(&server, watched(&[0, HOUR_MS], sender, false))
        .send()
        .unwrap();
    assert!(responses.next().unwrap().is_ok());
    drop(responses);
    dropped.recv_timeout(PATIENCE).unwrap();
    server.stop().unwrap();
    assert!(!server.is_live().unwrap_or(false));
    let request = repeat(&server, Tensor::new(&[1], vec![0u32]).unwrap());
    assert!(request.send().is_err());
}

#[test]
fn panics_stay_out_of_the_library() {
    let repository = Repository::new();
    let server = repository.server();
    let (sender, dropped) = channel();
    let responses = repeat(&server, watched(&[HOUR_MS], sender, true))
        .send()
        .unwrap();
    drop(responses);
    dropped.recv_timeout(PATIENCE).unwrap();
    let request = Request::new(&server, "identity").input("X", floats(&[1.0]));
    assert!(request.infer().is_ok());
    server.stop().unwrap();
}

/// The last handle of a server may be an input, which ends in a callback of that server: who
/// waited there for the server's end would wait for itself.
#[test]
fn a_server_may_end_in_its_own_callback() {
    let repository = Repository::new();
    let server = repository.server();
    let one = Tensor::new(&[1], vec![0u32]).unwrap();
    let responses: Vec<_> = repeat(&server, one.clone()).send().unwrap().collect();
    let value = responses[0]
        .as_ref()
        .unwrap()
        .output("OUT")
        .unwrap()
        .clone();
    drop(responses);
    let (sender, dropped) = channel();
    let responses = Request::new(&server, "repeat")
        .input("IN", value)
        .input("DELAY", watched(&[HOUR_MS], sender, false))
        .input("WAIT", one)
        .send()
        .unwrap();
    drop(server);
    drop(responses);
    dropped.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn threads_share_a_server_and_a_request() {
    let repository = Repository::new();
    let server = repository.server();
    let shared = Request::new(&server, "identity").input("X", floats(&[7.0]));
    thread::scope(|scope| {
        for number in 0..8u32 {
            let (server, shared) = (&server, &shared);
            scope.spawn(move || {
                let (sender, dropped) = channel();
                for i in 0..100u32 {
                    // As bits of a float, in memory that is overwritten when it is let go of.
                    let bits = [number + 1, i + 1].repeat(500);
                    let owner = Watched {
                        bytes: bits.iter().flat_map(|b| b.to_ne_bytes()).collect(),
                        dropped: sender.clone(),
                        panics: false,
                    };
                    let x = Tensor::from_owner(Datatype::Fp32, &[1000], owner).unwrap();
                    let responses = Request::new(server, "identity").input("X", x).send();
                    let response = responses.unwrap().next().unwrap().unwrap();
                    let y = response.output("Y").unwrap().values::<f32>().unwrap();
                    assert!(y.iter().map(|v| v.to_bits()).eq(bits));
                    let response = shared.infer().unwrap();
                    assert_eq!(
                        response.output("Y").unwrap().values::<f32>().unwrap(),
                        [7.0]
                    );
                }
                assert_eq!(dropped.iter().take(100).count(), 100);
            });
        }
    });
    server.stop().unwrap();
}

#[test]
fn models_are_loaded_asked_and_unloaded() {
    let repository = Repository::new();
    let server = Server::new(&repository.options().id("mine")).unwrap();
    assert!(server.is_live().unwrap() && server.is_ready().unwrap());
    assert!(server.is_model_ready("identity", None).unwrap());
    assert!(server.is_model_ready("identity", Some(1)).unwrap());
    assert!(!server.is_model_ready("identity", Some(2)).unwrap());
    assert!(server.metadata().unwrap().contains(r#""name":"mine""#));
    assert!(server
        .model_metadata("identity", None)
        .unwrap()
        .contains("FP32"));
    assert!(server
        .model_config("identity", Some(1))
        .unwrap()
        .contains("TYPE_FP32"));
    assert!(server.index(true).unwrap().contains("identity"));
    let request = Request::new(&server, "identity").input("X", floats(&[1.0]));
    request.infer().unwrap();
    let statistics = server.statistics("identity", None).unwrap();
    assert!(
        statistics.contains(r#""inference_count":1"#),
        "{statistics}"
    );
    assert!(server
        .metrics()
        .unwrap()
        .contains("nv_inference_request_success"));

    server.unload_with_dependents("repeat").unwrap();
    server.load("repeat").unwrap();
    assert!(server.is_model_ready("repeat", None).unwrap());
    server.unload("repeat").unwrap();
    assert!(server
        .load("nobody")
        .unwrap_err()
        .message()
        .contains("nobody"));
    assert!(server.load_with("made", "{", &[]).is_err());

    let other = server.clone();
    drop(server);
    assert!(other.is_ready().unwrap());
    let quiet = Server::new(&repository.options().metrics(false)).unwrap();
    assert_eq!(quiet.metrics().unwrap(), "");
}
