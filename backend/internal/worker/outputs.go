package worker

const firstOutputSegment = 1 << 31
