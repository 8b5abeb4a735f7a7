package client_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// TestSharedMemory: tensors that both sides see travel by name, in and out.
func TestSharedMemory(t *testing.T) { both(t, testSharedMemory) }

func testSharedMemory(t *testing.T, c *client.Client) {
	key := fmt.Sprintf("neso_client_test_%d", os.Getpid())
	memory, err := client.NewSharedMemory(key, 17)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /dev/shm here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	copy(memory.Bytes(), []byte{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	if _, err := client.NewSharedMemory(key, 17); !errors.Is(err, os.ErrExist) {
		t.Errorf("once more: got %v", err)
	}
	if err := c.RegisterSystemSharedMemory(t.Context(), "mine", key, 0, 17); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{nil, {"mine"}} {
		list, err := c.SystemSharedMemory(t.Context(), names...)
		if want := []client.SystemRegion{{Name: "mine", Key: key, Size: 17}}; err != nil || !cmp.Equal(list, want) {
			t.Errorf("%q: got %v, %v, want %v", names, list, err, want)
		}
	}
	if _, err := c.SystemSharedMemory(t.Context(), "other"); err == nil {
		t.Error("a region that is not there: no error")
	}
	if err := c.RegisterCUDASharedMemory(t.Context(), "gpu", make([]byte, 64), 0, 17); err == nil {
		t.Error("a handle of no GPU: no error")
	}
	resp, err := c.Infer(t.Context(), &client.Request{
		Model: "id", Inputs: []client.Input{{
			Name: "X", Datatype: tensor.Int32, Shape: tensor.Shape{1, 2},
			Region: &client.Region{Name: "mine", Size: 8},
		}},
		OutputRegions: map[string]client.Region{"X": {Name: "mine", Offset: 8, Size: 8}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []client.Output{{
		Name: "X", Datatype: tensor.Int32, Shape: tensor.Shape{1, 2},
		Region: &client.Region{Name: "mine", Offset: 8, Size: 8},
	}}
	if diff := cmp.Diff(want, resp.Outputs); diff != "" {
		t.Error(diff)
	}
	if want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9}; !cmp.Equal(memory.Bytes(), want) {
		t.Errorf("got %v, want %v", memory.Bytes(), want)
	}
	if _, err := client.Read[int32](resp, "X"); err == nil {
		t.Error("an output in shared memory is read: no error")
	}
	if err := errors.Join(c.UnregisterSystemSharedMemory(t.Context(), ""), c.UnregisterCUDASharedMemory(t.Context(), "")); err != nil {
		t.Error(err)
	}
	if list, err := c.SystemSharedMemory(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	if err := errors.Join(memory.Close(), memory.Close()); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "/", "a/b", ".."} {
		if _, err := client.NewSharedMemory(bad, 1); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
