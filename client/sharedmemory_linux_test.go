package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// TestSharedMemory: tensors that both sides see travel by name, in and out.
func TestSharedMemory(t *testing.T) {
	c := server(t, "127.0.0.1:0")
	key := fmt.Sprintf("neso_client_test_%d", os.Getpid())
	file := filepath.Join("/dev/shm", key)
	if err := os.WriteFile(file, []byte{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 0o600); err != nil {
		t.Skip("no /dev/shm here: ", err)
	}
	defer os.Remove(file)
	if err := c.RegisterSystemSharedMemory(t.Context(), "mine", key, 0, 17); err != nil {
		t.Fatal(err)
	}
	list, err := c.SystemSharedMemory(t.Context())
	if want := []client.SystemRegion{{Name: "mine", Key: key, Size: 17}}; err != nil || !cmp.Equal(list, want) {
		t.Errorf("got %v, %v, want %v", list, err, want)
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
	got, err := os.ReadFile(file)
	if want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if err := c.UnregisterSystemSharedMemory(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if list, err := c.SystemSharedMemory(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
