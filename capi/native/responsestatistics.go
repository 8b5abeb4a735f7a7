//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
	"github.com/nesoserve/neso/capi/object"
)

// statistics is a TRITONBACKEND_ModelInstanceResponseStatistics: what a library says of
// one response, as often as it is reported.
type statistics struct {
	mu                 sync.Mutex
	instance           *instance
	request            *request // of the factory
	start, output, end uint64   // of the response, of the writing of its outputs or 0, and the end
	failed, cancelled  bool
}

var reports = handle.NewTable[statistics](kindStatistics)

func statisticsOf(h C.uintptr_t, f func(s *statistics) C.uintptr_t) C.uintptr_t {
	s := reports.Get(handle.Handle(h))
	if s == nil {
		return stale("the response statistics")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s)
}

// report sends what was set to the server.
func (s *statistics) report() C.uintptr_t {
	switch {
	case s.instance == nil:
		return errorf(backend.InvalidArg, "the response statistics have no model instance")
	case s.request == nil:
		return errorf(backend.InvalidArg, "the response statistics have no response factory")
	}
	output, index := s.output, s.request.reported.Add(1)-1 // one that is refused has its number, too
	switch {
	case output == 0 && s.start > s.end:
		return errorf(backend.InvalidArg, "Response start cannot happen after response end")
	case output == 0:
		output = s.end
	case s.start > output:
		return errorf(backend.InvalidArg, "Response start cannot happen after compute output start")
	case output > s.end:
		return errorf(backend.InvalidArg, "Compute output start cannot happen after response end")
	}
	r := host.Report{Flags: host.ReportResponse, Size: index, Times: [4]uint64{s.start, output, s.end, s.end}}
	if s.output == 0 {
		r.Flags |= host.ReportEmpty
	}
	if s.failed {
		r.Flags |= host.ReportFailed
	}
	if s.cancelled {
		r.Flags |= host.ReportCancelled
	}
	if err := s.instance.server.Responded(s.instance.number, r); err != nil {
		return result(err)
	}
	return 0
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsNew
func TRITONBACKEND_ModelInstanceResponseStatisticsNew(to C.uintptr_t) C.uintptr_t {
	put(to, reports.New(&statistics{}))
	return 0
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsDelete
func TRITONBACKEND_ModelInstanceResponseStatisticsDelete(s C.uintptr_t) C.uintptr_t {
	if reports.Take(handle.Handle(s)) == nil {
		return stale("the response statistics")
	}
	return 0
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance
func TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(s, h C.uintptr_t) C.uintptr_t {
	return statisticsOf(s, func(s *statistics) C.uintptr_t {
		return instanceOf(h, func(in *instance) C.uintptr_t { s.instance = in; return 0 })
	})
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(s, h C.uintptr_t) C.uintptr_t {
	return statisticsOf(s, func(s *statistics) C.uintptr_t {
		return factoryOf(h, func(f *factory) C.uintptr_t { s.request = f.request; return 0 })
	})
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(s C.uintptr_t, ns C.uint64_t) C.uintptr_t {
	return statisticsOf(s, func(s *statistics) C.uintptr_t { s.start = uint64(ns); return 0 })
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(s C.uintptr_t, ns C.uint64_t) C.uintptr_t {
	return statisticsOf(s, func(s *statistics) C.uintptr_t { s.end = uint64(ns); return 0 })
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart
func TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(s C.uintptr_t, ns C.uint64_t) C.uintptr_t {
	return statisticsOf(s, func(s *statistics) C.uintptr_t { s.output = uint64(ns); return 0 })
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetError
func TRITONBACKEND_ModelInstanceResponseStatisticsSetError(s, failure C.uintptr_t) C.uintptr_t {
	return statisticsOf(s, func(s *statistics) C.uintptr_t {
		err := object.AsError(handle.Handle(failure))
		s.failed = err != nil
		s.cancelled = err != nil && err.Code == backend.Cancelled
		return 0
	})
}

//export TRITONBACKEND_ModelInstanceReportResponseStatistics
func TRITONBACKEND_ModelInstanceReportResponseStatistics(s C.uintptr_t) C.uintptr_t {
	return statisticsOf(s, (*statistics).report)
}
