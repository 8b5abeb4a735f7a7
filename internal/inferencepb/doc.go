// Package inferencepb holds the generated messages of the Open Inference
// protocol and of config.pbtxt. It owns no behaviour; only modelconfig, kserve
// and grpcapi import it.
//
// The sources are proto/neso/inference/*.proto: read those, not the generated
// files. The messages have a proto package name of our own, neso.inference.v1,
// so that a program that links another copy of the protocol does not panic at
// start; names of packages are not on the wire.
package inferencepb

//go:generate sh ../../proto/generate.sh
