package modelconfig

// protoConfig is the parsed message behind a Config.
type protoConfig any
