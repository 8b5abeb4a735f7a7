package jsonwire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/shm"
)

func TestDecodeRegions(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, shm.HandleSize))
	for body, want := range map[string]SystemRegion{
		`{"key":"/k","byte_size":4}`: {Key: "/k", ByteSize: 4},
		` { "x" : [{}], "byte_size":18446744073709551615 , "offset":9,"key":"\u00e9" } `: {Key: "é", ByteSize: 1<<64 - 1, Offset: 9},
	} {
		if got, err := DecodeSystemRegion([]byte(body)); err != nil || got != want {
			t.Errorf("%s: got %v %v, want %v", body, got, err, want)
		}
	}
	got, err := DecodeCUDARegion([]byte(`{"raw_handle":{"x":1,"b64":"` + b64 + `"},"device_id":3,"byte_size":8}`))
	if err != nil || len(got.Handle) != shm.HandleSize || got.Handle[0] != 7 || got.Device != 3 || got.ByteSize != 8 {
		t.Errorf("got %v %v", got, err)
	}
	for body, want := range map[string]string{
		`{"raw_handle":{"b64":"` + b64 + `"},"byte_size":8}`: "Unable to parse 'device_id': attempt to " +
			"access non-existing object member 'device_id'",
		`{"raw_handle":{"b64":"` + b64 + `"},"byte_size":8,"device_id":4294967296}`: "'device_id' is no number of a device",
		`{"raw_handle":{"b64":"` + b64 + `"},"byte_size":8,"device_id":-1}`: "Unable to parse 'device_id': attempt to " +
			"access JSON non-unsigned-integer as unsigned-integer",
		`{"raw_handle":{"b64":"` + b64 + `AAAA"},"byte_size":8,"device_id":0}`: "'raw_handle' must be a valid base64 " +
			"encoded cudaIpcMemHandle_t",
		`{"raw_handle":{"b64":5},"byte_size":8,"device_id":0}`: "Unable to parse 'b64': attempt to access " +
			"JSON non-string as string",
		`{"raw_handle":{},"byte_size":8,"device_id":0}`: "Unable to parse 'b64': attempt to access " +
			"non-existing object member 'b64'",
		`{"raw_handle":"` + b64 + `","byte_size":8,"device_id":0}`: "Unable to parse 'b64': attempt to access " +
			"non-existing object member 'b64'",
		`{"raw_handle":{"b64":"` + strings.Repeat("A", 1000) +
			`"},"byte_size":8,"device_id":0}`: "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t",
	} {
		if _, err := DecodeCUDARegion([]byte(body)); err == nil || err.Message != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}

func TestAppendRegions(t *testing.T) {
	got := string(AppendRegions(nil, []shm.Region{
		{Name: "a\"b", Key: "/k", Offset: 4, ByteSize: 1<<64 - 1}, {Name: "c", Kind: shm.CUDA, Device: 1, ByteSize: 8},
	}))
	want := `[{"name":"a\"b","key":"/k","offset":4,"byte_size":18446744073709551615},{"name":"c","device_id":1,"byte_size":8}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzRegions compares what a registration says with encoding/json.
func FuzzRegions(f *testing.F) {
	for _, s := range []string{
		`{"key":"/k","byte_size":4,"offset":1}`, `{}`, ``, `[]`, `{"key":1}`,
		`{"raw_handle":{"b64":"AAAA"},"byte_size":1,"device_id":0}`, `{"key":"a","byte_size":-1}`, `{"byte_size":1e3}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if q, err := DecodeCUDARegion(body); err == nil && (len(q.Handle) != shm.HandleSize || q.Device < 0) {
			t.Errorf("%q: %v", body, q)
		}
		q, err := DecodeSystemRegion(body)
		if err != nil {
			return
		}
		var twin map[string]json.RawMessage
		var key string
		var size uint64
		// A member that is there twice, or bytes that are no UTF-8, mean something else to the twin.
		if fault := json.Unmarshal(body, &twin); fault != nil {
			t.Skip()
		}
		if json.Unmarshal(twin["key"], &key) == nil && json.Unmarshal(twin["byte_size"], &size) == nil &&
			bytes.Count(body, []byte(`"key"`)) == 1 &&
			bytes.Count(body, []byte(`"byte_size"`)) == 1 && !strings.Contains(key, "\ufffd") && !bytes.Contains(body, []byte(`\`)) &&
			(q.Key != key || q.ByteSize != size) {
			t.Errorf("%q: got %v, want %q %d", body, q, key, size)
		}
	})
}
