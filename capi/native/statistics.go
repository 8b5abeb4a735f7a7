//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/native/host"
	"github.com/nesoserve/neso/capi/handle"
)

// What a library reports of its requests and batches is counted as it says. Of those that
// it says nothing of, and of responses, the server counts what it measures.

// statistics is a TRITONBACKEND_ModelInstanceResponseStatistics.
type statistics struct{}

var reports = handle.NewTable[statistics](kindStatistics)

// reported hands on what is said of a request or a batch.
func reported(of *host.Request, r host.Report, times ...C.uint64_t) C.uintptr_t {
	for k := range times {
		if k > 0 && times[k] < times[k-1] {
			return errorf(backend.InvalidArg,
				"the times of statistics, start and end of the execution and of the computation in it, are not in order: %v", times)
		}
		r.Times[k] = uint64(times[k])
	}
	of.Report(r)
	return 0
}

//export TRITONBACKEND_ModelInstanceReportStatistics
func TRITONBACKEND_ModelInstanceReportStatistics(h, r C.uintptr_t, success C.uint8_t, start, computeStart, computeEnd, end C.uint64_t,
) C.uintptr_t {
	return instanceOf(h, func(*instance) C.uintptr_t {
		return requestOf(r, func(r *request) C.uintptr_t {
			if success == 0 {
				return reported(r.of, host.Report{Flags: host.ReportFailed})
			}
			return reported(r.of, host.Report{}, start, computeStart, computeEnd, end)
		})
	})
}

//export TRITONBACKEND_ModelInstanceReportBatchStatistics
func TRITONBACKEND_ModelInstanceReportBatchStatistics(h C.uintptr_t, size, start, computeStart, computeEnd, end C.uint64_t,
) C.uintptr_t {
	return instanceOf(h, func(in *instance) C.uintptr_t {
		of := in.latest.Load()
		if of == nil {
			return errorf(backend.InvalidArg, "instance '%s' has not executed a batch yet", in.config.Name)
		}
		return reported(of, host.Report{Flags: host.ReportBatch, Size: uint64(size)}, start, computeStart, computeEnd, end)
	})
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
