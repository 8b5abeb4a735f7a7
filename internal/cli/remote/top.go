package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/cli/terminal"
	"github.com/nesoserve/neso/internal/cli/top"
)

// watch are the options of `neso top`.
type watch struct {
	interval time.Duration
	count    int
	sort     string
	metrics  string
	url      string // the server's, as it was given
	http     http.Client
}

// mostMetrics bounds what is read of the metrics, in bytes.
const mostMetrics = 64 << 20

func topCommand(out io.Writer) *cobra.Command {
	o := &watch{}
	c := command(&cobra.Command{
		Use:   "top",
		Short: "Watch the models of a running server: requests, failures, latency, queue, CPU, memory",
		Long: "Prints a table a version again and again, on a terminal in place. Numbers are of the time since the table before.\n" +
			"Percentiles, what waits, and what server, workers and GPUs are busy with come from the server's metrics, and are left\n" +
			"out where these cannot be read.",
		Example: "  neso top\n  neso top --sort=latency --interval=5s\n  neso top --count=1 | cat",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		if o.interval < 100*time.Millisecond {
			return fmt.Errorf("--interval=%v: expected at least 100ms", o.interval)
		}
		if !slices.Contains(top.Orders, o.sort) {
			return fmt.Errorf("--sort=%s: expected one of %s", o.sort, strings.Join(top.Orders, ", "))
		}
		if o.count < 0 {
			return fmt.Errorf("--count=%d: expected 0 (until it is interrupted) or more", o.count)
		}
		o.url = cmd.Flag("url").Value.String()
		if o.metrics == "" {
			o.metrics = metricsBeside(o.url)
		} else if _, err := o.series(cmd.Context(), c.Header); err != nil {
			return fmt.Errorf("--metrics-url: %v", err) //nolint:errorlint // explain would take it for an error of --url
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return o.run(ctx, c, out)
	})
	c.Flags().DurationVar(&o.interval, "interval", time.Second, "the time between two tables")
	c.Flags().IntVarP(&o.count, "count", "n", 0, "end after so many tables; 0 means when it is interrupted")
	c.Flags().StringVar(&o.sort, "sort", top.Orders[0], "what rows are sorted by: "+strings.Join(top.Orders, ", "))
	c.Flags().StringVar(&o.metrics, "metrics-url", "", "the server's metrics (default port 8002 of --url, /metrics)")
	return c
}

// metricsBeside is where the metrics of a server usually are; empty for none.
func metricsBeside(address string) string {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), "8002") + "/metrics"
}

// run prints tables until it has printed enough or is interrupted, which is no error.
func (o *watch) run(ctx context.Context, c *client.Client, out io.Writer) error {
	o.http.Timeout = 10 * time.Second
	defer o.http.CloseIdleConnections()
	before, err := o.look(ctx, c)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	inPlace := terminal.Is(out)
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := o.look(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		rows := top.Rates(before, now)
		top.Sort(rows, o.sort)
		columns, lines := 0, 0
		if inPlace {
			columns, lines = terminal.Size(out)
		}
		text := top.Draw(top.Header{URL: o.url, At: now.At, Interval: o.interval, Machine: top.Machine(before, now)}, rows, columns, lines)
		if inPlace {
			text = "\x1b[H\x1b[2J" + strings.TrimSuffix(text, "\n")
		} else if n > 1 {
			text = "\n" + text
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		if n == o.count {
			if inPlace {
				_, err = io.WriteString(out, "\n")
			}
			return err
		}
		before = now
	}
}

// look asks the server once.
func (o *watch) look(ctx context.Context, c *client.Client) (top.Look, error) {
	now := top.Look{At: time.Now()}
	text, err := c.Statistics(ctx, "", "")
	if err != nil {
		return now, err
	}
	if now.Models, err = top.ReadStatistics(text); err != nil {
		return now, err
	}
	if now.Index, err = c.Index(ctx, false); err != nil {
		return now, err
	}
	if o.metrics != "" {
		now.Series, _ = o.series(ctx, c.Header) // the table goes without them
	}
	return now, nil
}

// series reads the metrics.
func (o *watch) series(ctx context.Context, header http.Header) ([]top.Series, error) {
	address := o.metrics
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header = header
	resp, err := o.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", address, resp.StatusCode)
	}
	return top.ReadSeries(io.LimitReader(resp.Body, mostMetrics), top.Names()...)
}
