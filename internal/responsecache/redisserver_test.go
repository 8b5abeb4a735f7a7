//go:build !edge

package responsecache

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a real redis-server on a free loopback port.
type redisServer struct {
	port    string
	args    []string
	process *exec.Cmd
}

func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server: `make setup` as root installs it, else the package redis-server of the system does")
	}
	s := &redisServer{port: strconv.Itoa(freePort(t))}
	s.args = append([]string{binary, "--bind", "127.0.0.1", "--port", s.port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()},
		args...)
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

// freePort returns a port that nobody listens on, below those that systems give to
// connections: while no server holds it nobody else's connection takes it.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port among 100 tried")
	return 0
}

// start begins the process and waits until it listens.
func (s *redisServer) start(t testing.TB) {
	t.Helper()
	s.process = exec.Command(s.args[0], s.args[1:]...)
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "redis-server listens", func() bool {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (s *redisServer) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// client returns a plain client of the server, for what others do there.
func (s *redisServer) client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + s.port, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// settings are those of a store that waits for a server as long as it lives: the
// time-outs that requests have would take a busy machine for a server that is gone.
func (s *redisServer) settings(more ...string) map[string]string {
	const patient = "60000"
	m := map[string]string{"host": "127.0.0.1", "port": s.port, "connect_timeout": patient, "socket_timeout": patient, "wait_timeout": patient}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// certificate writes one for 127.0.0.1 that signs itself, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth,
		},
	}
	der, err := x509.CreateCertificate(crand.Reader, &of, &of, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}
