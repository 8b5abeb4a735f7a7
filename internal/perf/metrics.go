package perf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/perf/report"
)

// mostMetrics bounds what is read of the server's metrics, in bytes.
const mostMetrics = 16 << 20

// collector reads the server's metrics again and again while a load runs.
type collector struct {
	url      string
	interval time.Duration
	client   http.Client

	stop  context.CancelFunc
	group sync.WaitGroup
	ended bool
	reads int
	gpu   report.GPU // sums, until end has made means of them
	err   error
}

// collect begins to read; an address that cannot be read is an error at once.
func collect(ctx context.Context, url string, interval time.Duration) (*collector, error) {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	c := &collector{url: url, interval: interval, gpu: report.NewGPU()}
	c.client.Timeout = askTimeout
	if err := c.read(ctx); err != nil {
		return nil, fmt.Errorf("--collect-metrics: the server's metrics cannot be read: %w", err)
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.group.Go(func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if err := c.read(ctx); err != nil && ctx.Err() == nil {
				c.err = err
				return
			}
		}
	})
	return c, nil
}

// end ends reading and returns the means and maxima of what was read; err is why
// reading ended before. It may be called twice.
func (c *collector) end() (report.GPU, error) {
	c.stop()
	c.group.Wait()
	if c.ended {
		return c.gpu, c.err
	}
	c.ended = true
	c.client.CloseIdleConnections()
	for _, sums := range []map[string]float64{c.gpu.Utilization, c.gpu.Power} {
		for name := range sums {
			sums[name] /= float64(max(c.reads, 1))
		}
	}
	return c.gpu, c.err
}

func (c *collector) read(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d", c.url, resp.StatusCode)
	}
	c.reads++
	return add(&c.gpu, io.LimitReader(resp.Body, mostMetrics))
}

// add adds one reading of the metrics.
func add(g *report.GPU, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "nv_gpu_") {
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		_, uuid, ok := strings.Cut(rest, `gpu_uuid="`)
		end := strings.IndexByte(uuid, '"')
		if !ok || end < 0 {
			continue
		}
		fields := strings.Fields(line[strings.LastIndexByte(line, '}')+1:])
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			continue
		}
		switch uuid = uuid[:end]; name {
		case "nv_gpu_utilization":
			g.Utilization[uuid] += v
		case "nv_gpu_power_usage":
			g.Power[uuid] += v
		case "nv_gpu_memory_used_bytes":
			g.UsedBytes[uuid] = max(g.UsedBytes[uuid], v)
		case "nv_gpu_memory_total_bytes":
			g.TotalBytes[uuid] = max(g.TotalBytes[uuid], v)
		}
	}
	return lines.Err()
}
