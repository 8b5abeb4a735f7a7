package perf

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/wire"
	"github.com/nesoserve/neso/tensor"
)

// sharedDirectory is where POSIX shared memory lies.
const sharedDirectory = "/dev/shm"

// share puts the inputs into a region of shared memory, makes another one for the
// outputs, and registers both with the server. Requests at once write the same place
// of the outputs, as those of perf_analyzer do.
func (p *prepared) share(ctx context.Context) error {
	for _, stream := range p.set.Streams {
		for i := range stream {
			if len(stream[i].Expected) > 0 {
				return errors.New("outputs in shared memory cannot be validated: requests at once share their place")
			}
		}
	}
	name := "neso-perf-" + rand.Text()
	inputs, err := create(name + "-inputs")
	if err != nil {
		return fmt.Errorf("--shared-memory=system: %w", err)
	}
	p.closers = append(p.closers, inputs.remove)
	size, err := inputs.place(p.set, name+"-inputs")
	if err == nil {
		err = p.register(ctx, name+"-inputs", size)
	}
	if err != nil {
		return fmt.Errorf("failed to share the inputs: %w", err)
	}
	outputs, err := create(name + "-outputs")
	if err != nil {
		return err
	}
	p.closers = append(p.closers, outputs.remove)
	p.call.Outputs, size = places(p.model.Outputs, name+"-outputs", p.o.Batch, p.model.MaxBatch > 0, int64(p.o.OutputRegion))
	if err := outputs.fill(size); err != nil {
		return err
	}
	if err := p.register(ctx, name+"-outputs", size); err != nil {
		return fmt.Errorf("failed to share the outputs: %w", err)
	}
	return nil
}

// register registers a region, and takes it back at the end of the run.
func (p *prepared) register(ctx context.Context, name string, size int64) error {
	if size == 0 {
		return nil
	}
	if err := p.api.Register(ctx, name, "/"+name, size); err != nil {
		return err
	}
	p.closers = append(p.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastAsk)
		defer cancel()
		_ = p.api.Unregister(ctx, name) // a server that has gone has no regions
	})
	return nil
}

type shared struct{ f *os.File }

func create(name string) (*shared, error) {
	f, err := os.OpenFile(filepath.Join(sharedDirectory, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return &shared{f}, err
}

func (s *shared) remove() {
	s.f.Close()
	os.Remove(s.f.Name())
}

// aligned is a multiple of 64 bytes, as tensors like to begin.
func aligned(n int64) int64 { return (n + 63) &^ 63 }

// place writes each input of each request and says where it lies; it returns the size
// of the region.
func (s *shared) place(set *data.Set, region string) (int64, error) {
	at := int64(0)
	for _, stream := range set.Streams {
		for i := range stream {
			for k := range stream[i].Inputs {
				t := &stream[i].Inputs[k]
				if len(t.Bytes) == 0 {
					continue // it has nothing that could lie there
				}
				t.Region, t.Offset = region, at
				if _, err := s.f.WriteAt(t.Bytes, at); err != nil {
					return 0, err
				}
				at = aligned(at + int64(len(t.Bytes)))
			}
		}
	}
	return at, s.f.Truncate(at)
}

// fill writes zeros, so that memory that is not there is our error and not the end of
// the server.
func (s *shared) fill(size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := s.f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// places says where each output is written, and how large the region is. An output
// of unknown size has open bytes.
func places(outputs []data.Input, region string, batch int, batches bool, open int64) (all []wire.Output, size int64) {
	for _, o := range outputs {
		bytes := open
		if n, err := o.Shape.Elements(); err == nil && o.Datatype != tensor.Bytes && !o.Shape.HasWildcard() {
			bytes = n * int64(o.Datatype.Size())
			if batches {
				bytes *= int64(batch)
			}
		}
		all = append(all, wire.Output{Name: o.Name, Region: region, Offset: size, Size: bytes})
		size = aligned(size + bytes)
	}
	return all, size
}
