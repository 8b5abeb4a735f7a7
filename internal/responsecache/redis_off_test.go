//go:build edge

package responsecache

import (
	"strings"
	"testing"
)

func TestLeftOut(t *testing.T) {
	_, err := Open(t.Context(), Options{Name: "redis", Settings: map[string]string{"host": "localhost", "port": "6379"}})
	if err == nil || !strings.Contains(err.Error(), "built without Redis") {
		t.Errorf("got %v, want an error that names the build", err)
	}
}
