#!/usr/bin/env python3
"""Sends real handwritten digits to the model `digits` (or --model) over HTTP and gRPC and prints what the server sees in them.

Needs `pip install numpy tritonclient[all]` and a server that serves examples/models.
"""

import argparse
import pathlib
import sys

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

HERE = pathlib.Path(__file__).resolve().parent
SHADES = " .:-=+*#%@"


def picture(image):
    """The image as text, one character for each grey value."""
    return "\n".join("".join(SHADES[min(int(v) * 10 // 17, 9)] * 2 for v in row) for row in image)


def classify(module, client, model, images, classes):
    """For each image its best classes, as (probability, index, label), by the classification extension."""
    tensor = module.InferInput("IMAGE", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    wanted = module.InferRequestedOutput("PROBABILITIES", class_count=classes)
    answer = client.infer(model, [tensor], outputs=[wanted]).as_numpy("PROBABILITIES")
    return [[parse_class(item) for item in row] for row in answer.reshape(len(images), classes)]


def parse_class(item):
    """b"0.98:3:three" as (0.98, 3, "three")."""
    value, index, label = item.decode().split(":", 2)
    return float(value), int(index), label


def run(name, module, client, images, labels, args):
    right = 0
    for start in range(0, len(images), args.batch):
        part = images[start : start + args.batch].astype(np.float32)
        for offset, classes in enumerate(classify(module, client, args.model, part, 3)):
            number = start + offset
            right += classes[0][1] == labels[number]
            if number < args.show:
                print(picture(images[number]))
                best = ", ".join(f"{label} {value:.1%}" for value, _, label in classes)
                print(f"{name}: {best} (it is {labels[number]})\n")
    print(f"{name}: {right} of {len(images)} held-out images right ({right / len(images):.1%})")
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--protocol", choices=["http", "grpc", "both"], default="both")
    parser.add_argument("--model", default="digits", help="digits, or one of examples/frameworks")
    parser.add_argument("--batch", type=int, default=32, help="images in a request (at most 64)")
    parser.add_argument("--show", type=int, default=2, help="images to print")
    args = parser.parse_args()

    with np.load(HERE / "digits_test.npz") as data:
        images, labels = data["images"], data["labels"]
    results = set()
    if args.protocol in ("http", "both"):
        with httpclient.InferenceServerClient(f"{args.host}:{args.http_port}") as client:
            results.add(run("HTTP", httpclient, client, images, labels, args))
    if args.protocol in ("grpc", "both"):
        with grpcclient.InferenceServerClient(f"{args.host}:{args.grpc_port}") as client:
            results.add(run("gRPC", grpcclient, client, images, labels, args))
    if len(results) > 1:
        sys.exit("HTTP and gRPC do not agree")


if __name__ == "__main__":
    main()
