//go:build unix

package responsecache

import (
	"syscall"
	"testing"
)

// TestRedisHangs stops the server's process: it accepts and never answers.
func TestRedisHangs(t *testing.T) {
	server := startRedis(t)
	p, log := pool(t), &lines{}
	s := openStore(t, p, log.logger(), server.settings("socket_timeout", "1000", "connect_timeout", "1000"))
	is := func(up bool) func() bool {
		return func() bool {
			s.Lookup(t.Context(), key(1)).Release()
			return s.Numbers().Up == up
		}
	}
	server.signal(t, syscall.SIGSTOP)
	until(t, "the hang is noticed", is(false))
	server.signal(t, syscall.SIGCONT)
	until(t, "it is back", is(true))
	if log.count("does not answer") != 1 || log.count("answers again") != 1 {
		t.Errorf("the log says:\n%s", log.b.String())
	}
}

func (s *redisServer) signal(t testing.TB, to syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(to); err != nil {
		t.Fatal(err)
	}
}
