package onnxruntime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// hidePaths replaces the directories of the machine by what a client knows of
// the repository.
func hidePaths(cfg *backend.Config, text string) string {
	if cfg.VersionDirectory != "" {
		text = strings.ReplaceAll(text, cfg.VersionDirectory, cfg.Name+"/"+filepath.Base(cfg.VersionDirectory))
	}
	if cfg.Directory != "" {
		text = strings.ReplaceAll(text, cfg.Directory, cfg.Name)
	}
	return text
}

// formats are beginnings of files that people put in place of a model.
var formats = []struct{ magic, what, hint string }{
	{"version https://git-lfs", "a Git LFS pointer, not the model", "fetch the content with 'git lfs pull'"},
	{"PK\x03\x04", "a zip archive (a PyTorch, Keras or NumPy file?)", "export the model to ONNX, or name another backend"},
	{"\x80\x02", "a Python pickle", "export the model to ONNX"},
	{"\x80\x03", "a Python pickle", "export the model to ONNX"},
	{"\x80\x04", "a Python pickle", "export the model to ONNX"},
	{"\x80\x05", "a Python pickle", "export the model to ONNX"},
	{"\x89HDF", "an HDF5 file (Keras?)", "convert it with tf2onnx"},
	{"<?xml", "an XML file (OpenVINO?)", "name it model.xml, for the openvino backend"},
	{"<!DOCTYPE", "a web page", "the download went wrong: fetch the file again"},
	{"<html", "a web page", "the download went wrong: fetch the file again"},
	{"{", "a JSON file (XGBoost?)", "export the model to ONNX, or name another backend"},
	{"\x1f\x8b", "a gzip archive", "unpack it"},
}

// checkFile looks at the first bytes for what ONNX Runtime would only call
// invalid.
func checkFile(cfg *backend.Config, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return backend.Errorf(backend.Unavailable, "unable to read '%s' of model '%s': %s", hidePaths(cfg, path), cfg.Name,
			hidePaths(cfg, err.Error()))
	}
	defer f.Close()
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if n == 0 {
		return fileError(cfg, path, "the file is empty", "write the model again")
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return backend.Errorf(backend.Unavailable, "unable to read '%s' of model '%s': %s", hidePaths(cfg, path), cfg.Name,
			hidePaths(cfg, err.Error()))
	}
	head = head[:n]
	if len(head) >= 8 && string(head[4:8]) == "TFL3" {
		return fileError(cfg, path, "it is a TensorFlow Lite model",
			"name it model.tflite, for the backend tensorflow, or convert it with tf2onnx")
	}
	for _, known := range formats {
		if bytes.HasPrefix(head, []byte(known.magic)) {
			return fileError(cfg, path, "it is "+known.what, known.hint)
		}
	}
	return nil
}

func fileError(cfg *backend.Config, path, what, hint string) error {
	return backend.Errorf(backend.InvalidArg, "'%s' is not an ONNX model: %s; %s", hidePaths(cfg, path), what, hint)
}

// hints say what to do about a load error, by a part of ONNX Runtime's text.
var hints = []struct{ part, hint string }{
	{"Unsupported model IR version", "the model needs a newer ONNX Runtime than %s: upgrade it, or save the model with an older IR version"},
	{"opset", "the model needs a newer ONNX Runtime than %s: upgrade it, or export the model with an older opset"},
	{"is not a registered function/op", "the model uses an operator that ONNX Runtime %s lacks: name its library in " +
		"model_operations.op_library_filename, or use a newer ONNX Runtime"},
	{"Failed to find kernel", "ONNX Runtime %s has no implementation of this operator and datatype on the chosen device"},
	{"Could not find an implementation", "ONNX Runtime %s has no implementation of this operator and datatype on the chosen device"},
	{"xternal data", "weights outside the model file must lie beside it, under the names that it gives"},
	{"cannot get file size", "weights outside the model file must lie beside it, under the names that it gives"},
	{"Protobuf parsing failed", "the file is cut off, damaged, or no ONNX model (%d bytes)"},
	{"ModelProto does not have a graph", "the file is cut off, damaged, or no ONNX model (%d bytes)"},
	{"ORT model verification failed", "the file is cut off, damaged, or not in ONNX Runtime's own format (%d bytes)"},
	{"bad_alloc", "there is not enough memory for the model"},
	{"Failed to allocate memory", "there is not enough memory for the model"},
}

// hintFor returns what to do about a message, or "".
func hintFor(message, path, version string) string {
	for _, h := range hints {
		switch {
		case !strings.Contains(message, h.part):
		case strings.Contains(h.hint, "%s"):
			return fmt.Sprintf(h.hint, version)
		case strings.Contains(h.hint, "%d"):
			var size int64
			if info, err := os.Stat(path); err == nil {
				size = info.Size()
			}
			return fmt.Sprintf(h.hint, size)
		default:
			return h.hint
		}
	}
	return ""
}

// explain turns an error of a load into one that says where and what to do.
func explain(err error, cfg *backend.Config, path string, e *environment) error {
	r, ok := errors.AsType[*runtimeError](err)
	if _, told := errors.AsType[*backend.Error](err); told || !ok {
		return err
	}
	text := hidePaths(cfg, r.Error())
	file := hidePaths(cfg, path)
	if hint := hintFor(r.message, path, e.version); hint != "" {
		text += " (" + file + ": " + hint + ")"
	} else if !strings.Contains(text, file) {
		text += " (" + file + ")"
	}
	code := backend.Internal
	switch r.code {
	case ortInvalidArgument, ortInvalidProtobuf, ortInvalidGraph:
		code = backend.InvalidArg
	case ortNoSuchFile:
		code = backend.NotFound
	case ortNotImplemented:
		code = backend.Unsupported
	}
	return backend.Errorf(code, "%s", text)
}
