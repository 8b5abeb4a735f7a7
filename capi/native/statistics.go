//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"github.com/nesoserve/neso/capi/handle"
)

// The server counts requests, executions and their times itself, from what it sends
// to the process and gets from it. What libraries report is taken and checked.

// statistics is a TRITONBACKEND_ModelInstanceResponseStatistics.
type statistics struct{}

var reports = handle.NewTable[statistics](kindStatistics)

//export TRITONBACKEND_ModelInstanceReportStatistics
func TRITONBACKEND_ModelInstanceReportStatistics(h, r C.uintptr_t, _1 C.uint8_t, _2, _3, _4, _5 C.uint64_t) C.uintptr_t {
	return instanceOf(h, func(*instance) C.uintptr_t {
		return requestOf(r, func(*request) C.uintptr_t { return 0 })
	})
}

//export TRITONBACKEND_ModelInstanceReportBatchStatistics
func TRITONBACKEND_ModelInstanceReportBatchStatistics(h C.uintptr_t, _1, _2, _3, _4, _5 C.uint64_t) C.uintptr_t {
	return instanceOf(h, func(*instance) C.uintptr_t { return 0 })
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

func reportOf(s C.uintptr_t) C.uintptr_t {
	if reports.Get(handle.Handle(s)) == nil {
		return stale("the response statistics")
	}
	return 0
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance
func TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(s, h C.uintptr_t) C.uintptr_t {
	if err := reportOf(s); err != 0 {
		return err
	}
	return instanceOf(h, func(*instance) C.uintptr_t { return 0 })
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(s, h C.uintptr_t) C.uintptr_t {
	if err := reportOf(s); err != 0 {
		return err
	}
	return factoryOf(h, func(*factory) C.uintptr_t { return 0 })
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(s C.uintptr_t, _ C.uint64_t) C.uintptr_t {
	return reportOf(s)
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd
func TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(s C.uintptr_t, _ C.uint64_t) C.uintptr_t {
	return reportOf(s)
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart
func TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(s C.uintptr_t, _ C.uint64_t) C.uintptr_t {
	return reportOf(s)
}

//export TRITONBACKEND_ModelInstanceResponseStatisticsSetError
func TRITONBACKEND_ModelInstanceResponseStatisticsSetError(s, _ C.uintptr_t) C.uintptr_t {
	return reportOf(s)
}

//export TRITONBACKEND_ModelInstanceReportResponseStatistics
func TRITONBACKEND_ModelInstanceReportResponseStatistics(s C.uintptr_t) C.uintptr_t {
	return reportOf(s)
}
