package transport

import (
	"encoding/binary"

	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
)

// Frame types of HTTP/2.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags of frames.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings of a connection.
const (
	settingTableSize     = 0x1
	settingPush          = 0x2
	settingMaxStreams    = 0x3
	settingInitialWindow = 0x4
	settingMaxFrame      = 0x5
	settingMaxHeaderList = 0x6
)

// errorCode is a reason to reset a stream or to end a connection.
type errorCode uint32

const (
	codeNone          errorCode = 0x0
	codeProtocol      errorCode = 0x1
	codeInternal      errorCode = 0x2
	codeFlowControl   errorCode = 0x3
	codeStreamClosed  errorCode = 0x5
	codeFrameSize     errorCode = 0x6
	codeRefusedStream errorCode = 0x7
	codeCancel        errorCode = 0x8
	codeCompression   errorCode = 0x9
	codeEnhanceCalm   errorCode = 0xb
)

const (
	preface         = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeaderSize = 9
	minMaxFrame     = 16384
	maxMaxFrame     = 1<<24 - 1
)

// frameHead is what stands before the payload of a frame.
type frameHead struct {
	length      int
	kind, flags byte
	stream      uint32
}

func parseFrameHead(b []byte) frameHead {
	return frameHead{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: b[3], flags: b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & flow.Max,
	}
}

func appendFrameHead(b []byte, length int, kind, flags byte, stream uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendWindowUpdate(b []byte, stream uint32, n int64) []byte {
	b = appendFrameHead(b, 4, frameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func appendReset(b []byte, stream uint32, code errorCode) []byte {
	b = appendFrameHead(b, 4, frameReset, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

func appendGoAway(b []byte, last uint32, code errorCode, text string) []byte {
	b = appendFrameHead(b, 8+len(text), frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, text...)
}

func appendPing(b []byte, flags byte, data [8]byte) []byte {
	return append(appendFrameHead(b, 8, framePing, flags, 0), data[:]...)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), value)
}
