//go:build unix && !edge

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
	// A machine that stands still for a second is one more such time.
	times := int(s.Numbers().Reconnection)
	if times == 0 || log.count("does not answer") != times || log.count("answers again") != times {
		t.Errorf("it was back %d times, the log says:\n%s", times, log.String())
	}
}

func (s *redisServer) signal(t testing.TB, to syscall.Signal) {
	t.Helper()
	if err := s.process.Process.Signal(to); err != nil {
		t.Fatal(err)
	}
}
