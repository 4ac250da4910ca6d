// Package activity is the words for what happens in an environment: the signals by which it is known whether somebody works there.
//
// Place: layer 1, vocabulary. Launchers look, controllers judge (internal/idle), people see the table.
// Promise: a table says when it was looked, by the clock of who looked, and its times are by that clock; one that Check passes is within
// its bounds. Enemies: a launcher's word taken for ours, a signal that two people name differently.
package activity

import (
	"errors"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Name is a signal.
type Name string

// The signals.
const (
	Terminal     Name = "terminal"     // somebody typed, in a terminal or over SSH
	Notebook     Name = "notebook"     // a kernel computed, or a notebook's terminal was used
	Ports        Name = "ports"        // bytes went to or from a port
	Process      Name = "process"      // a program runs in the foreground of a terminal, or a command over SSH
	CPU          Name = "cpu"          // processes used more than BusyCores
	Device       Name = "device"       // an accelerator computed
	DeviceMemory Name = "deviceMemory" // memory of an accelerator is in use
	Training     Name = "training"     // a task trains inside it
	Kept         Name = "kept"         // somebody said that it shall stay
	Start        Name = "start"        // it was started
)

// All are those that a rule may count, in the order in which they are shown.
var All = []Name{Terminal, Notebook, Ports, Process, CPU, Device, DeviceMemory, Training}

// What is activity and what is not.
const (
	BusyCores  = 0.1  // of all processes together
	BusyDevice = 0.02 // of one accelerator's time
	HeldMemory = 0.05 // of one accelerator's memory
)

// What the leader asks of an environment's launcher, as the kind of a probe of its rank 0.
const (
	Ask  = "signals" // the table, as JSON in the answer's text
	Warn = "idle"    // idle:SECONDS has its terminals say that it stops in so long
)

// Signal is what one signal says.
type Signal struct {
	Name   Name       `json:"name" enum:"terminal,notebook,ports,process,cpu,device,deviceMemory,training"`
	Active bool       `json:"active" doc:"It is active now."`
	Last   *time.Time `json:"last,omitempty" doc:"When it was active last; absent: not since it was started."`
	Value  string     `json:"value,omitempty" doc:"What was seen there."`
}

// Table is what all of them say.
type Table struct {
	At      time.Time `json:"at" doc:"When it was looked."`
	Since   time.Time `json:"since" doc:"Since when it is looked: the start."`
	Signals []Signal  `json:"signals"`
}

const maxValue = 200

// Check refuses a table that can't be.
func (t *Table) Check() error {
	if t.At.IsZero() || t.Since.IsZero() || t.Since.After(t.At) || len(t.Signals) > len(All) {
		return errors.New("a table of signals that can't be")
	}
	for i, s := range t.Signals {
		if !slices.Contains(All, s.Name) || len(s.Value) > maxValue || s.Last != nil && s.Last.After(t.At) ||
			slices.ContainsFunc(t.Signals[:i], func(o Signal) bool { return o.Name == s.Name }) {
			return errors.New("a signal that can't be")
		}
	}
	return nil
}

// Of is the signal of this name; nil: nobody looked.
func (t *Table) Of(name Name) *Signal {
	if i := slices.IndexFunc(t.Signals, func(s Signal) bool { return s.Name == name }); i >= 0 {
		return &t.Signals[i]
	}
	return nil
}

var words = map[Name]fault.Text{
	Terminal: fault.T("terminal or SSH", "终端或 SSH"), Notebook: fault.T("notebook kernel", "笔记本内核"), Ports: fault.T("port traffic", "端口流量"),
	Process: fault.T("foreground process", "前台进程"), CPU: fault.T("CPU", "CPU"), Device: fault.T("accelerator", "加速卡计算"),
	DeviceMemory: fault.T("accelerator memory", "加速卡显存"), Training: fault.T("training inside it", "内嵌训练"),
	Kept: fault.T("kept by request", "已请求保留"), Start: fault.T("its start", "启动"),
}

// Text is a signal's name as people read it.
func (n Name) Text() fault.Text {
	if t, ok := words[n]; ok {
		return t
	}
	return fault.Text{EN: string(n), ZH: string(n)}
}
