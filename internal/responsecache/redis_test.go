//go:build !edge

package responsecache

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/memory"
)

func openStore(t testing.TB, p *memory.Pool, log *slog.Logger, settings map[string]string) *remote {
	t.Helper()
	s, err := Open(t.Context(), Options{Name: "redis", Settings: settings, Allocator: p, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*remote)
}

// written waits until s holds no entry on its way to Redis. That Redis has an
// entry does not say so: the writer may not have read the answer yet, and answers
// look-ups itself until then.
func written(t testing.TB, s *remote) {
	t.Helper()
	until(t, "all is written", func() bool {
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		return len(s.writer.entries) == 0
	})
}

func TestRedisSuite(t *testing.T) {
	server := startRedis(t)
	suite(t, func(t *testing.T, p *memory.Pool) Store {
		if err := server.client(t).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return openStore(t, p, slog.New(slog.DiscardHandler), server.settings())
	})
}

func TestServersShareAStore(t *testing.T) {
	server := startRedis(t)
	p := pool(t)
	a, b := openStore(t, p, slog.New(slog.DiscardHandler), server.settings("ttl", "100")),
		openStore(t, p, slog.New(slog.DiscardHandler), server.settings())
	if _, err := a.Insert(key(1), entry(t, p, 1, 5000)); err != nil {
		t.Fatal(err)
	}
	until(t, "the other server finds it", func() bool {
		e := b.Lookup(t.Context(), key(1))
		if e == nil {
			return false
		}
		is(t, e, 1, 5000)
		return true
	})
	ttl, err := server.client(t).TTL(t.Context(), prefix+key(1).String()).Result()
	if err != nil || ttl <= 0 || ttl > 100*time.Second {
		t.Errorf("it lives for %v, %v", ttl, err)
	}
}

func TestForeignValuesAreIgnored(t *testing.T) {
	server := startRedis(t)
	p, log := pool(t), &lines{}
	s, c := openStore(t, p, log.logger(), server.settings()), server.client(t)
	for n, value := range []string{"hello", strings.Repeat("x", 1000), string(encoded(t, p, 99, 10))} {
		if err := c.Set(t.Context(), prefix+key(n).String(), value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if e := s.Lookup(t.Context(), key(n)); e != nil {
			t.Errorf("value %d is an entry", n)
		}
	}
	if n := s.Numbers(); n.BadEntries != 3 || !n.Up || log.count("is no response") != 1 {
		t.Errorf("%+v, logged %d times", n, log.count("is no response"))
	}
	// An answer takes the place of what was there.
	if _, err := s.Insert(key(0), entry(t, p, 0, 10)); err != nil {
		t.Fatal(err)
	}
	is(t, s.Lookup(t.Context(), key(0)), 0, 10)
	// A list is no string: Redis says so, and nobody waits for that.
	if err := c.LPush(t.Context(), prefix+key(7).String(), "x").Err(); err != nil {
		t.Fatal(err)
	}
	if s.Lookup(t.Context(), key(7)) != nil {
		t.Error("a list is an entry")
	}
	until(t, "the store is used again", func() bool { return s.Numbers().Up })
}

// TestRedisGoesAndComesBack kills the real server and starts it again.
func TestRedisGoesAndComesBack(t *testing.T) {
	server := startRedis(t)
	p, log := pool(t), &lines{}
	s := openStore(t, p, log.logger(), server.settings())
	for round := 1; round <= 2; round++ {
		if _, err := s.Insert(key(round), entry(t, p, round, 10)); err != nil {
			t.Fatal(err)
		}
		is(t, s.Lookup(t.Context(), key(round)), round, 10)
		written(t, s)
		if n, err := server.client(t).DBSize(t.Context()).Result(); err != nil || n == 0 {
			t.Errorf("%d entries in Redis, %v", n, err)
		}
		server.kill()
		until(t, "the loss is noticed", func() bool {
			e := s.Lookup(t.Context(), key(round+100))
			e.Release()
			return !s.Numbers().Up
		})
		for n := range 20 { // nobody asks it meanwhile
			if s.Lookup(t.Context(), key(round)) != nil {
				t.Error("an entry of a server that is gone")
			}
			if _, err := s.Insert(key(500+n), entry(t, p, n, 10)); err != nil {
				t.Error(err)
			}
		}
		if got := log.count("does not answer"); got != round {
			t.Errorf("logged %d times in round %d", got, round)
		}
		server.start(t)
		until(t, "it is back", func() bool { return s.Numbers().Up })
		if got := log.count("answers again"); got != round {
			t.Errorf("its return was logged %d times in round %d", got, round)
		}
	}
}

func TestServerStartsWithoutRedis(t *testing.T) {
	server := startRedis(t)
	server.kill()
	p, log := pool(t), &lines{}
	s := openStore(t, p, log.logger(), server.settings())
	if s.Numbers().Up || log.count("does not answer") != 1 {
		t.Error("a server that is not there is in use")
	}
	server.start(t)
	until(t, "it is there", func() bool { return s.Numbers().Up })
}

func TestRedisRefuses(t *testing.T) {
	server := startRedis(t, "--requirepass", "secret", "--databases", "2")
	for name, c := range map[string]struct {
		settings map[string]string
		env      string
		want     string
	}{
		"no password":       {server.settings(), "", "NOAUTH"},
		"wrong password":    {server.settings("password", "x"), "", "WRONGPASS"},
		"setting wins":      {server.settings("password", "x"), "secret", "WRONGPASS"},
		"wrong user":        {server.settings("password", "secret", "user", "nobody"), "", "WRONGPASS"},
		"no such database":  {server.settings("password", "secret", "db", "7"), "", "DB index is out of range"},
		"password":          {server.settings("password", "secret", "user", "default", "db", "1"), "", ""},
		"from the variable": {server.settings(), "secret", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(PasswordVariable, c.env)
			s, err := Open(t.Context(), Options{Name: "redis", Settings: c.settings, Allocator: pool(t), Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				_ = s.Close()
			}
			if (err == nil) != (c.want == "") || err != nil &&
				(!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "Failed to initialize RedisCache: ")) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if err != nil && backend.AsError(err).Code != backend.Internal {
				t.Errorf("code %v", backend.AsError(err).Code)
			}
		})
	}
}

func TestRedisOutOfMemory(t *testing.T) {
	server := startRedis(t)
	p, log := pool(t), &lines{}
	s := openStore(t, p, log.logger(), server.settings())
	if err := server.client(t).ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if _, err := s.Insert(key(n), entry(t, p, n, 10)); err != nil {
			t.Error(err)
		}
		until(t, "it is refused", func() bool { return s.Numbers().Dropped == uint64(n+1) })
	}
	if n := s.Numbers(); !n.Up || log.count("refuses to store") != 1 {
		t.Errorf("%+v, log:\n%s", n, log.String())
	}
}

func TestRedisOverTLS(t *testing.T) {
	cert, private := certificate(t)
	plain := startRedis(t) // finds a free port
	plain.kill()
	server := startRedis(t, "--tls-port", plain.port, "--tls-cert-file", cert, "--tls-key-file", private, "--tls-ca-cert-file", cert)
	p := pool(t)
	settings := plain.settings("tls_enabled", "true", "cacert", cert, "cert", cert, "key", private)
	until(t, "it serves TLS", func() bool {
		s := openStore(t, p, slog.New(slog.DiscardHandler), settings)
		return s.Numbers().Up
	})
	s := openStore(t, p, slog.New(slog.DiscardHandler), settings)
	if _, err := s.Insert(key(1), entry(t, p, 1, 10)); err != nil {
		t.Fatal(err)
	}
	written(t, s)
	if n, err := server.client(t).Exists(t.Context(), prefix+key(1).String()).Result(); err != nil || n != 1 {
		t.Errorf("%d such entries in Redis, %v", n, err)
	}
	is(t, s.Lookup(t.Context(), key(1)), 1, 10)
	// Without the client's certificate the server does not talk to us.
	delete(settings, "cert")
	delete(settings, "key")
	if openStore(t, p, slog.New(slog.DiscardHandler), settings).Numbers().Up {
		t.Error("in use without a certificate")
	}
}

func TestSettings(t *testing.T) {
	good := map[string]string{"host": "h", "port": "6379"}
	with := func(more ...string) map[string]string {
		m := map[string]string{"host": good["host"], "port": good["port"]}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, c := range []struct {
		name     string
		settings map[string]string
		want     string
	}{
		{"nosuch", nil, "unable to find 'libtritoncache_nosuch.so' for cache"},
		{"local", map[string]string{}, "Failed to initialize LocalCache: config didn't contain a valid 'size' field."},
		{"local", map[string]string{"size": "abc"}, "cache-config local,size=abc is not a number of bytes"},
		{"local", map[string]string{"size": "10"}, "cache-config local,size=10 is not"},
		{"local", map[string]string{"size": "-1"}, "cache-config local,size=-1 is not"},
		{"local", map[string]string{"size": "99999999999999999999"}, "is not a number of bytes"},
		{"redis", map[string]string{"host": "h"}, "Must at a minimum specify 'host' and 'port'"},
		{"redis", with("port", "x"), "redis,port=x is not a number from 1 to 65535"},
		{"redis", with("port", "0"), "redis,port=0 is not"},
		{"redis", with("db", "-1"), "redis,db=-1 is not a number"},
		{"redis", with("pool_size", "0"), "redis,pool_size=0 is not a number from 1 to " + strconv.Itoa(maxPool)},
		{"redis", with("wait_timeout", "1s"), "redis,wait_timeout=1s is not a number"},
		{"redis", with("ttl", "-1"), "redis,ttl=-1 is not"},
		{"redis", with("tls_enabled", "yes"), "redis,tls_enabled=yes is not true or false"},
		{"redis", with("tls_enabled", "true", "cert", "/nope"), "redis,cert=/nope is not a certificate"},
		{"redis", with("tls_enabled", "true", "cacert", "/nope"), "redis,cacert=/nope is not a file of certificates"},
	} {
		s, err := Open(t.Context(), Options{Name: c.name, Settings: c.settings, Allocator: pool(t), Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s %v: no error, want %s", c.name, c.settings, c.want)
		} else if !strings.Contains(err.Error(), c.want) || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("%s %v: got %v, want %s", c.name, c.settings, err, c.want)
		}
	}
	c, err := parseRedis(with("connection_timeout", "7", "socket_timeout", "0", "wait_timeout", "9", "pool_size", "3", "user", "u"),
		"cache-config", func(string) string { return "env" })
	if err != nil || c.Addr != "h:6379" || c.DialTimeout != 7*time.Millisecond || c.ReadTimeout != defaultSocket ||
		c.PoolTimeout != 9*time.Millisecond || c.PoolSize != 3 || c.Username != "u" || c.Password != "env" {
		t.Errorf("%+v, %v", c, err)
	}
	log := &lines{}
	s, err := Open(t.Context(), Options{Name: "local", Settings: map[string]string{"size": "4096", "sise": "1"}, Logger: log.logger()})
	if err != nil || log.count("local,sise") != 1 {
		t.Errorf("an unknown setting: %v", err)
	}
	_ = s.Close()
}
