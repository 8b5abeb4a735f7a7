package grpcapi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestWriteProto has protoc read what is written, and compares what it understood
// with the descriptors that clients are told by reflection.
func TestWriteProto(t *testing.T) {
	var text strings.Builder
	if err := WriteProto(&text); err != nil {
		t.Fatal(err)
	}
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		t.Skip("there is no protoc")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "inference.proto"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	set := filepath.Join(dir, "set")
	if out, err := exec.CommandContext(t.Context(), protoc, "-I", dir, "-o", set, "inference.proto").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(set)
	if err != nil {
		t.Fatal(err)
	}
	var got descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	files, err := wireFiles()
	if err != nil {
		t.Fatal(err)
	}
	want := &descriptorpb.FileDescriptorProto{Name: new("inference.proto"), Package: new(wirePackage), Syntax: new("proto3")}
	for _, path := range []string{"grpc_service.proto", "model_config.proto"} {
		f, err := files.FindFileByPath(path)
		if err != nil {
			t.Fatal(err)
		}
		d := protodesc.ToFileDescriptorProto(f)
		want.Service, want.MessageType = append(want.Service, d.Service...), append(want.MessageType, d.MessageType...)
		want.EnumType = append(want.EnumType, d.EnumType...)
	}
	for _, f := range append(got.File, want) {
		for _, m := range f.MessageType {
			withoutJSONNames(m)
		}
	}
	if !proto.Equal(got.File[0], want) {
		t.Errorf("protoc understood\n%v\nwant\n%v", got.File[0], want)
	}
}

// withoutJSONNames leaves out what protoc may or may not fill in.
func withoutJSONNames(m *descriptorpb.DescriptorProto) {
	for _, f := range m.Field {
		f.JsonName = nil
	}
	for _, nested := range m.NestedType {
		withoutJSONNames(nested)
	}
}

// full is a writer on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWriteProtoOnAFullDisk(t *testing.T) {
	if err := WriteProto(full{}); err == nil {
		t.Error("the error of the writer is lost")
	}
}
