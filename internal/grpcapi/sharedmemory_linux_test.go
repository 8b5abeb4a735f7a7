package grpcapi

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/nesoserve/neso/internal/inferencepb"
)

// object makes a shared-memory object with these int32 values.
func object(t *testing.T, values ...int32) (key, path string) {
	t.Helper()
	f, err := os.CreateTemp("/dev/shm", "neso_test_")
	if err != nil {
		t.Skip("there is no shared memory here:", err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if err := binary.Write(f, binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return "/" + filepath.Base(f.Name()), f.Name()
}

// within asks a model for its echo of the first value of region, which goes to
// the second.
func within(model, id, region string) *pb.ModelInferRequest {
	at := func(offset int64) map[string]*pb.InferParameter {
		return map[string]*pb.InferParameter{
			"shared_memory_region":    {ParameterChoice: &pb.InferParameter_StringParam{StringParam: region}},
			"shared_memory_offset":    {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: offset}},
			"shared_memory_byte_size": {ParameterChoice: &pb.InferParameter_Int64Param{Int64Param: 4}},
		}
	}
	return &pb.ModelInferRequest{
		ModelName: model, Id: id,
		Inputs:  []*pb.ModelInferRequest_InferInputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{1}, Parameters: at(0)}},
		Outputs: []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "OUT", Parameters: at(4)}},
	}
}

// held returns how many descriptors of the object this process has.
func held(t *testing.T, path string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, path) {
			n++
		}
	}
	return n
}

// TestSharedMemoryIsLetGo runs requests over streams that are read to the end,
// cancelled in the middle and never read, and calls: once all is over nothing
// holds the region.
func TestSharedMemoryIsLetGo(t *testing.T) {
	f := start(t, script(), Options{})
	key, path := object(t, 50, 0)
	if _, err := invoke[pb.SystemSharedMemoryRegisterResponse](f, "SystemSharedMemoryRegister",
		&pb.SystemSharedMemoryRegisterRequest{Name: "r", Key: key, ByteSize: 8}); err != nil {
		t.Fatal(err)
	}
	if p, err := f.infer(within("int32", "a", "r")); err != nil || len(p.RawOutputContents) != 1 || len(p.RawOutputContents[0]) != 0 {
		t.Errorf("%v %v", p, err)
	}
	if b, _ := os.ReadFile(path); len(b) != 8 || b[4] != 50 {
		t.Errorf("the object holds %v", b)
	}
	var work sync.WaitGroup
	for i := range 24 {
		work.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := f.open(ctx)
			for _, model := range []string{"many", "int32", "wide", "many", "nope"} {
				_ = s.Send(within(model, fmt.Sprint(i), "r"))
			}
			_ = s.CloseSend()
			for range i % 8 * 15 {
				if _, err := s.Recv(); err != nil {
					return
				}
			}
		})
	}
	work.Wait()
	// What was cancelled is still on its way.
	for end := time.Now().Add(time.Minute); ; {
		_, err := invoke[pb.SystemSharedMemoryUnregisterResponse](f, "SystemSharedMemoryUnregister",
			&pb.SystemSharedMemoryUnregisterRequest{Name: "r"})
		if err == nil {
			break
		}
		if words(err) != "Internal: Cannot unregister shared memory region 'r', it is currently in use." || time.Now().After(end) {
			t.Fatal(words(err))
		}
		runtime.Gosched()
	}
	if _, err := f.infer(within("int32", "a", "r")); words(err) != "NotFound: Unable to find shared memory region: 'r'" {
		t.Error(words(err))
	}
	f.stopped()
	if n := held(t, path); n != 0 {
		t.Errorf("%d descriptors are still open", n)
	}
}
