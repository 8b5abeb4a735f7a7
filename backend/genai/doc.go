// Package genai serves language models with ONNX Runtime GenAI, a C library that is opened
// at run time: it tokenizes, fills chat templates in and generates token by token.
//
// Open model.go first, then execute.go. A request becomes a [task] (ask.go, options.go); it
// waits for its place in the cache of keys and values (cache.go), and from then on a goroutine
// of its own writes the answer (write.go) from the tokens that a source gives: a generator of
// its own (generator.go), or, for models that were exported for it, the library's engine, which
// runs all of them together (engine.go). The C border is api.go and tokenizer.go.
package genai
