// Sequences is the load generator for stateful models: many sequences at once over HTTP, each on a connection of its own, one
// request after the other, and each answer checked. wrk and h2load cannot tell the requests of a connection apart.
//
// Usage: sequences -address HOST:PORT -model NAME -sequences 1000 -length 10 -seconds 3
//
// The model gives the running sum (INT64) of its sequence. The last line of the output is that of request.lua.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const requestTimeout = 60 * time.Second

// A client runs one sequence after the other on its connection.
type client struct {
	address, model string
	length         int
	ids            *atomic.Uint64 // correlation ids, of which each is used once

	latencies     []time.Duration
	wrong, failed int // answers with another sum; answers with an error status, or none
	connection    net.Conn
	reader        *bufio.Reader
	request, body []byte
}

// run begins sequences until end, and finishes the last one. After a failure it
// goes on with another connection, so that the load stays what it was, unless
// there is nobody to connect to.
func (c *client) run(end time.Time) {
	defer c.hangUp()
	for time.Now().Before(end) {
		if c.sequence(c.ids.Add(1)) {
			continue
		}
		if c.connection == nil {
			return
		}
		c.hangUp()
	}
}

func (c *client) hangUp() {
	if c.connection != nil {
		_ = c.connection.Close()
		c.connection = nil
	}
}

// sequence sends 1, 2, 3, ... and expects 1, 3, 6, ...
func (c *client) sequence(id uint64) bool {
	total := int64(0)
	for i := 1; i <= c.length; i++ {
		total += int64(i)
		began := time.Now()
		got, err := c.ask(id, int64(i), i == 1, i == c.length)
		if err != nil {
			if c.failed++; c.failed == 1 {
				fmt.Fprintln(os.Stderr, err)
			}
			return false
		}
		c.latencies = append(c.latencies, time.Since(began))
		if got != total {
			c.wrong++
		}
	}
	return true
}

func (c *client) ask(id uint64, value int64, start, end bool) (int64, error) {
	if c.connection == nil {
		connection, err := net.DialTimeout("tcp", c.address, requestTimeout)
		if err != nil {
			return 0, err
		}
		c.connection = connection
		c.reader = bufio.NewReaderSize(c.connection, 4096)
	}
	if err := c.connection.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return 0, err
	}
	c.body = fmt.Appendf(c.body[:0], `{"parameters":{"sequence_id":%d,"sequence_start":%t,"sequence_end":%t,"binary_data_output":true},`+
		`"inputs":[{"name":"INPUT0","datatype":"INT64","shape":[1,1],"parameters":{"binary_data_size":8}}]}`, id, start, end)
	head := len(c.body)
	c.body = binary.LittleEndian.AppendUint64(c.body, uint64(value))
	c.request = fmt.Appendf(c.request[:0],
		"POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n",
		c.model, c.address, head, len(c.body))
	c.request = append(c.request, c.body...)
	if _, err := c.connection.Write(c.request); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	header, err := strconv.Atoi(response.Header.Get("Inference-Header-Content-Length"))
	if response.StatusCode != http.StatusOK || err != nil || header+8 != len(answer) {
		return 0, fmt.Errorf("status %d: %s", response.StatusCode, answer)
	}
	return int64(binary.LittleEndian.Uint64(answer[header:])), nil
}

func main() {
	address := flag.String("address", "", "HTTP address of the server")
	model := flag.String("model", "sums", "model to ask")
	sequences := flag.Int("sequences", 1000, "sequences at once")
	length := flag.Int("length", 10, "requests of a sequence")
	seconds := flag.Float64("seconds", 3, "for how long new sequences begin")
	flag.Parse()

	var ids atomic.Uint64
	ids.Store(uint64(os.Getpid()) << 32) // unlike those of a run before
	clients := make([]*client, *sequences)
	began := time.Now()
	end := began.Add(time.Duration(*seconds * float64(time.Second)))
	var running sync.WaitGroup
	for i := range clients {
		clients[i] = &client{address: *address, model: *model, length: *length, ids: &ids}
		running.Go(func() { clients[i].run(end) })
	}
	running.Wait()
	report(clients, time.Since(began))
}

func report(clients []*client, took time.Duration) {
	var all []time.Duration
	wrong, failed := 0, 0
	for _, c := range clients {
		all = append(all, c.latencies...)
		wrong += c.wrong
		failed += c.failed
	}
	slices.Sort(all)
	at := func(share float64) int64 {
		if len(all) == 0 {
			return 0
		}
		return all[min(int(share*float64(len(all))), len(all)-1)].Microseconds()
	}
	fmt.Printf("RESULT requests=%d duration_us=%d p50_us=%d p99_us=%d max_us=%d connect=0 read=%d write=0 status=%d timeout=0\n",
		len(all), took.Microseconds(), at(0.5), at(0.99), at(1), failed, wrong)
}
