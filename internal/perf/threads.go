package perf

import (
	"os"
	"runtime"

	"github.com/nesoserve/neso/internal/perf/options"
)

// threadShare is how many processors have one thread of the generator.
const threadShare = 4

// smallRequest is up to how many bytes a request is small.
const smallRequest = 64 << 10

// threads is how many threads are to run the generator's code on a machine of so many
// processors. One sends 200,000 small requests a second; where more stand by, they
// look for work with processor time that the server needs. All of them are for loads that
// compute (TLS, compression, answers that are looked into, large tensors), for those at a
// rate, whose requests sleep in the kernel until they are due, and for a server in this process.
func (p *prepared) threads(processors int) int {
	o := p.o
	computes := p.secure || o.Export != "" || o.Kind != "triton" || o.Compression != "" && o.Compression != "none" || p.check() != nil
	if o.Mode != options.Closed || computes {
		return processors
	}
	for _, stream := range p.requests {
		for _, r := range stream {
			if r.Size() > smallRequest {
				return processors
			}
		}
	}
	return max(1, processors/threadShare)
}

// limitThreads does it, unless the user has, until end is called.
func (p *prepared) limitThreads() (end func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(p.threads(before))
	return func() { runtime.GOMAXPROCS(before) }
}
