// Package modelfile owns what backends share about the file that holds a
// model: where a configuration may say that it lies ([Path]), and when it is
// another one than before ([Stamp]).
//
// Open modelfile.go first.
package modelfile
