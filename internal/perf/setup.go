package perf

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/report"
	"github.com/nesoserve/neso/internal/perf/target"
	"github.com/nesoserve/neso/internal/perf/wire"
	"github.com/nesoserve/neso/internal/processors"
)

// prepared is all that is made before the load begins.
type prepared struct {
	o        *options.Options
	api      target.API
	model    *target.Model
	set      *data.Set
	requests [][]*wire.Prepared
	call     *wire.Call
	dial     func() drive.Conn
	secure   bool // connections have TLS
	server   int  // the process of the server, 0 where it cannot be seen
	random   *rand.Rand
	times    []time.Duration // when each request is due, of a schedule
	closers  []func()
}

func (p *prepared) close() {
	for _, c := range slices.Backward(p.closers) {
		c()
	}
}

// dialTimeout bounds how long a connection may take to be made.
const dialTimeout = 10 * time.Second

// askTimeout bounds questions beside the load.
const askTimeout = 30 * time.Second

// lastAsk bounds them once a run has been interrupted.
const lastAsk = 2 * time.Second

func setup(ctx context.Context, o *options.Options, env Env) (*session, error) {
	p := &prepared{o: o, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	s := &session{prepared: p, env: env}
	prepare := p.prepare
	if o.Kind == "triton_c_api" {
		prepare = p.prepareLocal
	}
	if err := prepare(ctx, env); err != nil {
		p.close()
		return nil, err
	}
	s.report = &report.Run{
		Options: o, Model: p.model, Version: env.Version, Processors: processors.Count(), Epoch: epoch(), Time: time.Now(),
	}
	return s, nil
}

func (p *prepared) prepare(ctx context.Context, env Env) error {
	o := p.o
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	d, err := dialer(o)
	if err != nil {
		return err
	}
	p.secure = d.TLS != nil
	headers, host := headersOf(o, d)
	if key := os.Getenv("NESO_KEY"); key != "" {
		headers = append(headers, [2]string{"X-API-Key", key})
	}
	p.server = measure.ServerProcess(d.Address)
	p.call = &wire.Call{Model: o.Model, Version: o.Version, Host: host, Headers: headers}
	if o.Kind == "openai" {
		return p.prepareOpenAI(d)
	}
	p.api = api(o, d, headers, host)
	p.closers = append(p.closers, func() { p.api.Close() })
	if err := p.describe(ctx); err != nil {
		return err
	}
	if err := p.statistics(ctx); err != nil {
		fmt.Fprintln(env.Stderr, "note: without the server's numbers:", measure.Plain(err.Error()))
		p.model.Statistics = false
	}
	if !p.model.Binary && o.Protocol == "http" && o.SharedMemory == "none" && (!o.JSONInput || !o.JSONOutput) {
		fmt.Fprintln(env.Stderr, "note: the server does not say that it takes tensors as bytes: they are sent as JSON, both ways")
		o.JSONInput, o.JSONOutput = true, true
	}
	if o.SharedMemory == "system" {
		if err := p.share(ctx); err != nil {
			return err
		}
	}
	p.compose()
	if err := p.encode(); err != nil {
		return err
	}
	p.connect(d, headers, host)
	return nil
}

// headersOf are the headers of every request, and the host that it names: the one it goes
// to, unless a header says another, such as that of a model behind a gateway.
func headersOf(o *options.Options, d *drive.Dialer) (headers [][2]string, host string) {
	host = target.Host(d.Address)
	for _, h := range o.Headers {
		name, value, _ := strings.Cut(h, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); strings.EqualFold(name, "host") {
			host = value
			continue
		}
		headers = append(headers, [2]string{name, value})
	}
	return headers, host
}

// dialer says where the connections go.
func dialer(o *options.Options) (*drive.Dialer, error) {
	d := &drive.Dialer{Address: o.URL, Timeout: dialTimeout}
	secure := o.Protocol == "grpc" && (o.TLS.GRPC || o.TLS.GRPCRoots != "" || o.TLS.GRPCChain != "")
	if scheme, rest, ok := strings.Cut(o.URL, "://"); ok {
		d.Address = strings.TrimRight(rest, "/")
		if !slices.Contains([]string{"http", "https", "grpc", "grpcs"}, scheme) {
			return nil, fmt.Errorf("-u %s: expected HOST:PORT, http:// or https://, or unix:PATH", o.URL)
		}
		secure = secure || scheme == "https" || scheme == "grpcs"
		if strings.Contains(d.Address, "/") {
			return nil, fmt.Errorf("-u %s: expected HOST:PORT, without a path", o.URL)
		}
	}
	if !strings.HasPrefix(d.Address, "unix:") {
		if _, _, err := net.SplitHostPort(d.Address); err != nil {
			port := map[bool]string{true: "443", false: "8000"}[secure]
			if o.Protocol == "grpc" && !secure {
				port = "8001"
			}
			d.Address = net.JoinHostPort(strings.Trim(d.Address, "[]"), port)
		}
		host, port, _ := net.SplitHostPort(d.Address)
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
			return nil, fmt.Errorf("-u '%s': expected HOST:PORT with a port from 1 to 65535", o.URL)
		}
	}
	if !secure {
		return d, nil
	}
	var err error
	d.TLS, err = tlsConfig(o)
	return d, err
}

func tlsConfig(o *options.Options) (*tls.Config, error) {
	t := &o.TLS
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	roots, chain, key := t.CA, t.Certificate, t.Key
	if o.Protocol == "grpc" {
		roots, chain, key = t.GRPCRoots, t.GRPCChain, t.GRPCKey
	} else if !t.VerifyPeer || !t.VerifyHost {
		c.InsecureSkipVerify = true
		if t.VerifyPeer { // the chain, without the name
			c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(c.RootCAs, s) }
		}
	}
	if roots != "" {
		text, err := os.ReadFile(roots)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: expected certificates in PEM form, found none", roots)
		}
	}
	if chain == "" {
		return c, nil
	}
	if key == "" {
		key = chain
	}
	cert, err := asPEM(chain, "CERTIFICATE", t.CertificateDER)
	if err != nil {
		return nil, err
	}
	secret, err := asPEM(key, "PRIVATE KEY", t.KeyDER) // of PKCS #1 and SEC 1 as well
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, secret)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", chain, key, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// asPEM reads a file in PEM form, or makes PEM of one in DER form.
func asPEM(path, kind string, der bool) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err == nil && der {
		text = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text})
	}
	return text, err
}

func verifyChain(roots *x509.CertPool, s tls.ConnectionState) error {
	between := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// api says how the server is asked beside the load.
func api(o *options.Options, d *drive.Dialer, headers [][2]string, host string) target.API {
	if o.Protocol == "grpc" {
		return target.GRPC(d, host, headers)
	}
	c := client.New(d.Address)
	if d.TLS != nil {
		c = client.New("https://" + d.Address)
		c.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: d.TLS.Clone(), ForceAttemptHTTP2: false}}
	}
	c.Header = http.Header{}
	for _, h := range headers {
		c.Header.Add(h[0], h[1])
	}
	c.Header.Set("Host", host)
	return target.HTTP(c)
}

// reached says of a server that cannot be reached what to do about it.
func reached(o *options.Options, err error) error {
	var text string
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		text = failed.Err.Error()
	} else if f, ok := errors.AsType[*drive.Failure](err); ok && f.Kind == "cannot connect" {
		text = f.Text
	}
	if text != "" {
		return fmt.Errorf("no server answers at %s: %s", o.URL, text)
	}
	if bad, ok := errors.AsType[*url.Error](err); ok {
		if alert, ok := errors.AsType[*net.OpError](bad.Err); ok && alert.Op == "remote error" {
			return fmt.Errorf("the server at %s refuses the connection: %w", o.URL, alert)
		}
		return fmt.Errorf("the server at %s does not speak HTTP, or not this way: %w", o.URL, bad.Err)
	}
	if f, ok := errors.AsType[*drive.Failure](err); ok && f.Broken {
		return fmt.Errorf("the server at %s does not speak gRPC, or not this way: %w", o.URL, f)
	}
	return err
}

// load makes the data.
func (p *prepared) load() error {
	o, m := p.o, p.model
	if m.Decoupled && !o.Streaming && o.Kind == "triton" {
		//nolint:staticcheck // the peer's text
		return fmt.Errorf("Decoupled models must be run with `--streaming` and `-i grpc`, or with `--service-kind=triton_c_api`: '%s' is "+
			"decoupled, it may answer a request any number of times", m.Name)
	}
	if o.Batch > 1 && m.MaxBatch == 0 {
		return errors.New("can not specify batch size > 1 as the model does not support batching")
	}
	if o.Batch > m.MaxBatch && m.MaxBatch > 0 {
		return fmt.Errorf("batch size %d is larger than the model's maximum, %d", o.Batch, m.MaxBatch)
	}
	if m.Sequence && o.Batch > 1 {
		return errors.New("can not specify batch size > 1 when using a sequence model")
	}
	set, err := data.New(data.Options{
		Inputs: m.Inputs, Outputs: m.Outputs, Paths: o.InputData, Zero: o.Zero, Shapes: o.Shapes, StringLength: o.StringLength,
		StringData: o.StringData, Batch: o.Batch, Batches: m.MaxBatch > 0, Sequence: m.Sequence, Scheduled: o.Mode == options.Scheduled,
	}, p.random)
	if p.set = set; err != nil {
		return err
	}
	return p.order()
}

// statistics reports why the server does not give its statistics to this client, such as
// for want of a key; a server that is not there is for others to find.
func (p *prepared) statistics(ctx context.Context) error {
	if !p.model.Statistics {
		return nil
	}
	_, err := target.Statistics(ctx, p.api, []string{p.model.Name})
	_, answered := errors.AsType[*client.Error](err)
	if f, ok := errors.AsType[*drive.Failure](err); ok && !f.Broken || answered {
		return fmt.Errorf("failed to get the statistics: %w", err)
	}
	return nil
}

// order sorts the requests of a schedule by when they are due, and counts them.
func (p *prepared) order() error {
	if p.o.Mode != options.Scheduled {
		return nil
	}
	if p.model != nil && p.model.Sequence {
		return errors.New("`--fixed-schedule` is not for sequence models: the order of a sequence's requests is not that of a schedule")
	}
	stream := p.set.Streams[0]
	slices.SortStableFunc(stream, func(a, b data.Step) int { return cmp.Compare(a.At, b.At) })
	for i := range stream {
		p.times = append(p.times, stream[i].At)
	}
	p.o.RequestCount, p.o.CountWindows, p.o.WindowRequests = len(stream), true, len(stream)
	return nil
}

// compose fills what all requests have in common.
func (p *prepared) compose() {
	o, c := p.o, p.call
	c.Sequence, c.JSONInput, c.JSONOutput = p.model.Sequence, o.JSONInput, o.JSONOutput
	c.EmptyFinal = p.model.Decoupled
	for _, v := range o.Parameters {
		c.Parameters = append(c.Parameters, wire.Parameter{Name: v.Name, Value: v.Value})
	}
	if c.Outputs == nil {
		for _, out := range p.model.Outputs {
			c.Outputs = append(c.Outputs, wire.Output{Name: out.Name})
		}
	}
}

// encode encodes every request once.
func (p *prepared) encode() error {
	for _, stream := range p.set.Streams {
		var list []*wire.Prepared
		for i := range stream {
			r := &wire.Prepared{Step: &stream[i]}
			switch {
			case p.o.Kind == "triton_c_api":
			case p.o.Protocol == "grpc" && p.o.Kind == "triton":
				if r = wire.GRPC(p.call, &stream[i]); p.o.Compression != "none" {
					r.Compress(p.o.Compression, drive.Compress)
				}
			default:
				var err error
				if r, err = wire.HTTP(p.call, &stream[i]); err != nil {
					return err
				}
			}
			list = append(list, r)
		}
		p.requests = append(p.requests, list)
	}
	return nil
}

// connect says how a connection of the load is made.
func (p *prepared) connect(d *drive.Dialer, headers [][2]string, host string) {
	o := p.o
	if o.Protocol != "grpc" {
		p.dial = func() drive.Conn { return drive.HTTP(d, false) }
		return
	}
	method, compression := drive.InferMethod, o.Compression
	if o.Streaming {
		method = drive.StreamMethod
	}
	if compression == "none" {
		compression = ""
	}
	options := drive.GRPCOptions{
		Heads:       drive.NewHeads(d, host, method, headers, compression),
		Compression: compression, Streaming: o.Streaming, Decoupled: p.model.Decoupled,
	}
	p.dial = func() drive.Conn { return drive.GRPC(d, options) }
}

func (p *prepared) prepareOpenAI(d *drive.Dialer) error {
	set, err := data.ReadBodies(p.o.InputData, p.o.Mode == options.Scheduled)
	if err != nil {
		return err
	}
	p.set, p.call.Path = set, p.o.Endpoint
	if err := p.order(); err != nil {
		return err
	}
	p.dial = func() drive.Conn { return drive.HTTP(d, true) }
	return p.encode()
}
