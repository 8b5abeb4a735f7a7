// Package agent is what repository agents as libraries call: the functions of
// include/triton/core/tritonrepoagent.h.
package agent
