package grpcapi

import (
	"context"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/logging"
)

// Names of the log settings.
const (
	keyLogFile    = "log_file"
	keyLogInfo    = "log_info"
	keyLogWarning = "log_warning"
	keyLogError   = "log_error"
	keyLogVerbose = "log_verbose_level"
	keyLogFormat  = "log_format"
)

func (s *Server) logSettings(_ context.Context, q *pb.LogSettingsRequest) (*pb.LogSettingsResponse, error) {
	l := s.o.Log
	if l == nil {
		return nil, unsupported("log settings are not available")
	}
	settings := l.Settings()
	if len(q.Settings) > 0 {
		if err := changeLog(&settings, q.Settings); err != nil {
			return nil, err
		}
		if err := l.Set(settings); err != nil {
			return nil, invalidArgument(err.Error())
		}
		settings = l.Settings()
	}
	return logResponse(settings), nil
}

// changeLog checks all changes before any of them holds.
func changeLog(to *logging.Settings, changes map[string]*pb.LogSettingsRequest_SettingValue) error {
	if _, ok := changes[keyLogFile]; ok {
		return unsupported("log file location can not be updated through network protocol")
	}
	for _, b := range []struct {
		key string
		dst *bool
	}{{keyLogInfo, &to.Info}, {keyLogWarning, &to.Warning}, {keyLogError, &to.Error}} {
		if c, ok := changes[b.key]; ok {
			v, ok := c.GetParameterChoice().(*pb.LogSettingsRequest_SettingValue_BoolParam)
			if !ok {
				return invalidArgument("expect boolean for '" + b.key + "'")
			}
			*b.dst = v.BoolParam
		}
	}
	if c, ok := changes[keyLogVerbose]; ok {
		v, ok := c.GetParameterChoice().(*pb.LogSettingsRequest_SettingValue_Uint32Param)
		if !ok {
			return invalidArgument("expect int32 for '" + keyLogVerbose + "'")
		}
		to.Verbose = int(v.Uint32Param)
	}
	if c, ok := changes[keyLogFormat]; ok {
		v, ok := c.GetParameterChoice().(*pb.LogSettingsRequest_SettingValue_StringParam)
		if !ok {
			return invalidArgument("expect string for '" + keyLogFormat + "'")
		}
		to.Format = v.StringParam
	}
	return nil
}

func logResponse(l logging.Settings) *pb.LogSettingsResponse {
	type value = pb.LogSettingsResponse_SettingValue
	flag := func(v bool) *value {
		return &value{ParameterChoice: &pb.LogSettingsResponse_SettingValue_BoolParam{BoolParam: v}}
	}
	text := func(v string) *value {
		return &value{ParameterChoice: &pb.LogSettingsResponse_SettingValue_StringParam{StringParam: v}}
	}
	return &pb.LogSettingsResponse{Settings: map[string]*value{
		keyLogFile:    text(l.File),
		keyLogInfo:    flag(l.Info),
		keyLogWarning: flag(l.Warning),
		keyLogError:   flag(l.Error),
		keyLogVerbose: {ParameterChoice: &pb.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: uint32(l.Verbose)}},
		keyLogFormat:  text(l.Format),
	}}
}
