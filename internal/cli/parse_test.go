package cli

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func parsed(t *testing.T, args ...string) (*serveOptions, []string, error) {
	t.Helper()
	o := defaults()
	given, err := parse(serveTable(), args, o)
	return o, given, err
}

func TestParseFormsOfOptions(t *testing.T) {
	o, given, err := parsed(t, "--http-port=9000", "--grpc-p", "9001", "--model-repository", "b", "--model-store=a", "--model-repository=b",
		"--log-verbose=true", "--exit-timeout-secs=-3", "--exit-on-error=OFF", "--backend-config=python,x=1=2", "--backend-config=y=3",
		"--model-control-mode=EXPLICIT", "--load-model=m", "--max-queued-bytes=2G", "--grpc-keepalive-time=1500",
		"--disable-auto-complete-config",
		"--cuda-memory-pool-byte-size=0:268435456", "--cuda-memory-pool-byte-size=3:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &o.server
	if o.httpPort != 9000 || o.grpcPort != 9001 || !slices.Equal(s.ModelRepositories, []string{"b", "a"}) || o.log.Verbose != 1 ||
		s.ExitTimeout >= 0 ||
		!s.KeepGoing || s.BackendSettings["python"]["x"] != "1=2" || s.BackendSettings[""]["y"] != "3" || s.ControlMode != "explicit" ||
		!maps.Equal(o.deviceMemory, map[int]int64{0: 256 << 20, 3: 0}) || s.MaxQueuedBytes != 2<<30 ||
		s.GRPC.KeepaliveTime != 1500*time.Millisecond || !s.DisableAutoComplete {
		t.Errorf("got %+v", o)
	}
	if !slices.Contains(given, "grpc-port") || slices.Contains(given, "grpc-p") {
		t.Errorf("given: %v", given)
	}
	if err := o.complete(given); err != nil || s.HTTP.Address != "0.0.0.0:9000" || s.Metrics.Address != "0.0.0.0:8002" {
		t.Errorf("%v: %s %s", err, s.HTTP.Address, s.Metrics.Address)
	}
}

func TestBooleansStandAlone(t *testing.T) {
	for _, args := range [][]string{
		{"--repository-require-manifest"},
		{"--repository-require-manifest", "--http-port=1"},
		{"--repository-require-manifest", "on"},
	} {
		if o, _, err := parsed(t, args...); err != nil || !o.server.RequireManifest {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, _, err := parsed(t, "--allow-http", "x"); err == nil || !strings.Contains(err.Error(), "invalid value for bool option: x") {
		t.Errorf("got %v", err)
	}
}

func TestParseMistakes(t *testing.T) {
	for arg, want := range map[string]string{
		"--nope":                            "unrecognized option '--nope'",
		"--http-prot=1":                     "did you mean '--http-port'",
		"--http-":                           "is ambiguous",
		"x":                                 "Unexpected argument: x",
		"--http-port":                       "option '--http-port' requires an argument",
		"--help=1":                          "doesn't allow an argument",
		"--http-port=8000abc":               "Invalid option value. Got 8000abc",
		"--http-port=999999999999999999999": "Provided option value is out of bound",
		"--allow-http=yes":                  "invalid value for bool option: yes",
		"--log-format=iso8601":              "invalid argument for --log-format",
		"--http-max-input-size=0":           "--http-max-input-size must be greater than 0",
		"--backend-config=,x=1":             "No backend specified. --backend-config option format is",
		"--backend-config=python,x":         "--backend-config option format is '<backend name>,<setting>=<value>'. Got python,x",
		"--host-policy=x":                   "--host-policy option format is '<policy name>,<setting>=<value>'. Got x",
		"--host-policy=a,b=1":               "Unsupported host policy setting 'b' is specified, supported settings are 'numa-node', 'cpu-cores'",
		"--model-load-gpu-limit=-1:0.6":     "expects device ID >= 0, got -1",
		"--model-load-gpu-limit=0:-0.4":     "expects limit fraction to be in range [0.0, 1.0], got -0.4",
		"--max-queued-bytes=1X":             "Invalid option value. Got 1X",
		"--grpc-infer-thread-count=1":       "from 2 to 128",
		"--model-config-name=":              "empty argument for --model-config-name",
		"--rate-limit=fast":                 "invalid argument for --rate-limit",
		"--cuda-memory-pool-byte-size=1":    "Cannot parse pair option",
		"--cuda-memory-pool-byte-size=x:1":  "Invalid option value. Got x",
		"--cuda-memory-pool-byte-size=0:1G": "--cuda-memory-pool-byte-size takes a number of bytes, got \"1G\"",
		"--cuda-memory-pool-byte-size=0:-1": "--cuda-memory-pool-byte-size takes no negative numbers, got \"0:-1\"",
		"--allow-client-shm=local":          "invalid value for bool option: local",
		"--rate-limit-resource=R": "--rate-limit-resource option format is '<resource_name>:<count>:<device>' or " +
			"'<resource_name>:<count>'. Got R",
		"--rate-limit-resource=R:1:2:3": "Got R:1:2:3",
		"--rate-limit-resource=R:x":     "Invalid option value. Got x",
		"--rate-limit-resource=R:-1":    "Invalid option value. Got R:-1",
	} {
		if _, _, err := parsed(t, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", arg, err, want)
		}
	}
}

func TestCrossChecks(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--load-model=m"}, "Use of '--load-model' requires"},
		{[]string{"--http-port=1", "--grpc-port=1"}, "cannot listen to HTTP requests and GRPC requests at the same address and port 0.0.0.0:1"},
		{[]string{"--metrics-port=8000"}, "HTTP requests and metrics requests"},
		{[]string{"--http-port=70000"}, "not between 0 and 65535"},
		{[]string{"--response-cache-byte-size=1", "--cache-config=local,size=1"}, "Incompatible flags"},
		{[]string{"--http-port=0", "--grpc-port=0", "--metrics-port=0"}, ""},
		{[]string{"--allow-http=false", "--grpc-port=8000"}, ""},
		{[]string{"--http-address=unix:/a", "--grpc-address=unix:/b"}, ""},
	} {
		o, given, err := parsed(t, c.args...)
		if err == nil {
			err = o.complete(given)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
}

// TestEveryOptionOfTriton: launchers made for the peer find each option that
// it has, deprecated ones too.
func TestEveryOptionOfTriton(t *testing.T) {
	var b bytes.Buffer
	usage(&b, serveTable(), "tritonserver")
	text := b.String()
	for name := range strings.FieldsSeq(`help id exit-timeout-secs log-verbose log-info log-warning log-error log-format log-file
		model-repository model-store exit-on-error disable-auto-complete-config strict-readiness model-control-mode repository-poll-secs load-model
		model-config-name model-load-thread-count model-load-retry-count model-namespacing enable-peer-access
		allow-http http-address http-port reuse-http-port http-header-forward-pattern http-thread-count http-max-input-size http-restricted-api
		allow-grpc grpc-address grpc-port reuse-grpc-port grpc-header-forward-pattern grpc-infer-thread-count grpc-infer-allocation-pool-size
		grpc-max-response-pool-size grpc-use-ssl grpc-use-ssl-mutual grpc-server-cert grpc-server-key grpc-root-cert
		grpc-infer-response-compression-level grpc-keepalive-time grpc-keepalive-timeout grpc-keepalive-permit-without-calls
		grpc-http2-max-pings-without-data grpc-http2-min-recv-ping-interval-without-data grpc-http2-max-ping-strikes grpc-max-connection-age
		grpc-max-connection-age-grace grpc-restricted-protocol allow-sagemaker sagemaker-port sagemaker-safe-port-range sagemaker-thread-count
		allow-vertex-ai vertex-ai-port vertex-ai-thread-count vertex-ai-default-model allow-metrics allow-gpu-metrics allow-cpu-metrics
		metrics-address metrics-port metrics-interval-ms metrics-config trace-config backend-directory backend-config repoagent-directory
		cache-config cache-directory rate-limit rate-limit-resource pinned-memory-pool-byte-size cuda-memory-pool-byte-size
		cuda-virtual-address-size min-supported-compute-capability buffer-manager-thread-count host-policy model-load-gpu-limit allow-client-shm
		strict-model-config response-cache-byte-size trace-file trace-level trace-rate trace-count trace-log-frequency`) {
		if !strings.Contains(text, "\n  --"+name+" ") && !strings.Contains(text, "\n  --"+name+"\n") {
			t.Errorf("--%s is missing", name)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "\t") && len(line) > 62 {
			t.Errorf("line too wide: %q", line)
		}
	}
}

func TestShownDefaultsAreInForce(t *testing.T) {
	table := serveTable()
	for name, value := range shownDefaults {
		i := slices.IndexFunc(table, func(o option) bool { return o.name == name })
		if i < 0 {
			t.Errorf("--%s has a default and is no option", name)
			continue
		}
		o := defaults()
		if err := table[i].set(o, value); err != nil || !reflect.DeepEqual(o, defaults()) {
			t.Errorf("--%s=%s (%v) changes what is set without it", name, value, err)
		}
	}
}

func TestStartLineHidesSecrets(t *testing.T) {
	got := startLine([]string{
		"--http-port=1", "--cache-config", "redis,password=hunter2", "--http-restricted-api=infer:key=hunter2", "--id",
		"a b",
	})
	if strings.Contains(got, "hunter2") || !strings.Contains(got,
		`--http-port=1 --cache-config redis,password=*** --http-restricted-api=infer:key=*** --id "a b"`) {
		t.Errorf("got %s", got)
	}
}
