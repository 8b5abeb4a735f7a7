//go:build !edge

package responsecache

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/nesoserve/neso/backend"
)

// Environment variables with the credentials; settings win over them.
const (
	UserVariable     = "TRITONCACHE_REDIS_USERNAME"
	PasswordVariable = "TRITONCACHE_REDIS_PASSWORD" //nolint:gosec // a name
)

// Bounds of what a request waits for Redis, where the settings say nothing or 0
// (with Triton "for ever").
const (
	defaultConnect = 500 * time.Millisecond
	defaultSocket  = 250 * time.Millisecond
	defaultWait    = 250 * time.Millisecond
	// defaultPool is enough for the look-ups of some thousand requests a second over
	// a slow network; with one connection, Triton's default, they queue.
	defaultPool = 16
	maxPool     = 4096
)

var redisSettings = []string{
	"host", "port", "user", "password", "db", "connect_timeout", "connection_timeout", "socket_timeout", "wait_timeout", "pool_size",
	"tls_enabled", "cert", "key", "cacert", "cacert_dir", "sni", "ttl",
}

// redisConfig is what the settings say.
type redisConfig struct {
	redis.Options
	ttl time.Duration // 0: entries stay until Redis drops them
}

// settings reads values and keeps the first fault.
type settings struct {
	values map[string]string
	err    error
	option string
}

func (s *settings) fault(name, want string) {
	if s.err == nil {
		s.err = backend.Errorf(backend.InvalidArg, "Failed to initialize RedisCache: "+s.option+" redis,%s=%s is not %s",
			name, s.values[name], want)
	}
}

func (s *settings) number(name string, otherwise, least, most int) int {
	text, ok := s.values[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		s.fault(name, fmt.Sprintf("a number from %d to %d", least, most))
		return otherwise
	}
	return n
}

// millis reads a time; 0 stands for the default.
func (s *settings) millis(name string, otherwise time.Duration) time.Duration {
	if n := s.number(name, 0, 0, 3_600_000); n > 0 {
		return time.Duration(n) * time.Millisecond
	}
	return otherwise
}

// parseRedis reads and checks the settings of --cache-config redis,... .
func parseRedis(values map[string]string, option string, getenv func(string) string) (*redisConfig, error) {
	if values["host"] == "" || values["port"] == "" {
		return nil, backend.Errorf(backend.InvalidArg,
			"Failed to initialize RedisCache, didn't specify address. Must at a minimum specify 'host' and 'port' "+
				"in the configuration - e.g. %[1]s redis,host=redis %[1]s redis,port=6379", option)
	}
	s := &settings{values: values, option: option}
	c := &redisConfig{}
	c.Addr = net.JoinHostPort(values["host"], strconv.Itoa(s.number("port", 0, 1, 65535)))
	c.Username, c.Password = getenv(UserVariable), getenv(PasswordVariable)
	if v, ok := values["user"]; ok {
		c.Username = v
	}
	if v, ok := values["password"]; ok {
		c.Password = v
	}
	c.DB = s.number("db", 0, 0, 1<<20)
	c.DialTimeout = s.millis("connect_timeout", s.millis("connection_timeout", defaultConnect))
	c.ReadTimeout = s.millis("socket_timeout", defaultSocket)
	c.WriteTimeout = c.ReadTimeout
	c.PoolTimeout = s.millis("wait_timeout", defaultWait)
	c.PoolSize = s.number("pool_size", defaultPool, 1, maxPool)
	c.ttl = time.Duration(s.number("ttl", 0, 0, 1<<31-1)) * time.Second
	c.TLSConfig = s.tls()
	// A request waits for one attempt; what fails is the circuit's business.
	c.MaxRetries, c.DialerRetries = -1, 1
	c.ContextTimeoutEnabled = true
	c.Protocol, c.DisableIdentity = 2, true // no more round trips at a connect than needed, and any Redis
	return c, s.err
}

func (s *settings) tls() *tls.Config {
	switch s.values["tls_enabled"] {
	case "true":
	case "", "false":
		return nil
	default:
		s.fault("tls_enabled", "true or false")
		return nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.values["sni"]}
	if t.ServerName == "" {
		t.ServerName = s.values["host"]
	}
	if cert, key := s.values["cert"], s.values["key"]; cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			s.fault("cert", fmt.Sprintf("a certificate with its key %s: %v", key, err))
		}
		t.Certificates = []tls.Certificate{pair}
	}
	var files []string
	if file := s.values["cacert"]; file != "" {
		files = append(files, file)
	}
	if dir := s.values["cacert_dir"]; dir != "" {
		found, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is well-formed
		files = append(files, found...)
	}
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if t.RootCAs == nil {
			t.RootCAs = x509.NewCertPool()
		}
		if !t.RootCAs.AppendCertsFromPEM(pem) && file == s.values["cacert"] {
			s.fault("cacert", fmt.Sprintf("a file of certificates (%v)", err))
		}
	}
	return t
}
