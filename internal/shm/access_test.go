package shm

import (
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func TestAccess(t *testing.T) {
	for _, c := range []struct {
		network, address string
		proxied, local   bool
	}{
		{"tcp", "127.0.0.1:4711", false, true},
		{"tcp", "127.8.9.10:1", false, true},
		{"tcp", "[::1]:4711", false, true},
		{"tcp", "[::ffff:127.0.0.1]:4711", false, true},
		{"unix", "", false, true},
		{"unix", "@", false, true},
		{"unixpacket", "/run/x", false, true},
		{"tcp", "127.0.0.1:4711", true, false},
		{"unix", "@", true, false},
		{"tcp", "10.0.0.1:4711", false, false},
		{"tcp", "192.0.2.1:4711", false, false},
		{"tcp", "[2001:db8::1]:4711", false, false},
		{"tcp", "[fe80::1%lo]:4711", false, false},
		{"tcp", "[::ffff:10.0.0.1]:4711", false, false},
		{"tcp", "0.0.0.0:1", false, false},
		{"tcp", "localhost:1", false, false}, // no address
		{"tcp", "127.0.0.1", false, false},
		{"tcp", "", false, false},
		{"bufconn", "bufconn", false, false},
	} {
		for access, want := range map[Access]bool{LocalPeers: c.local, Everyone: true, Nobody: false} {
			r := New(Options{Access: access})
			if got := r.For(c.network, c.address, c.proxied) != nil; got != want {
				t.Errorf("%d %s %s, proxied %v: got %v, want %v", access, c.network, c.address, c.proxied, got, want)
			}
		}
	}
}
