// Package genai serves language models with ONNX Runtime GenAI, a C library that is opened
// at run time: it tokenizes, fills chat templates in, chooses tokens and generates.
//
// Open model.go first, then execute.go. A request becomes a [task] (ask.go, options.go); it
// waits for its place in the cache of keys and values (cache.go), and from then on a goroutine
// of its own writes the answer (write.go) from the tokens that a source gives. There are three:
// our own loop that runs the network on all texts at once (together.go, over package step, with
// the library as the one that chooses: stub.go), for models that layout.go finds fit; the library's
// engine, for models that were exported for it (engine.go); else a generator for each text
// (generator.go). The C border is api.go and tokenizer.go, and package onnxruntime for the network.
package genai
