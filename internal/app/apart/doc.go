// Package apart is how servers find each other's words where they share no folder: nothing but etcd, PostgreSQL and a store of bytes. Each may be on a
// machine of its own, and runs nothing there: what a leader started on its own machine, the next one could not find.
//
// Place: layer 6, a part of the assembly. Promise: agents are told of all servers that live, and no number of a project is given twice, whoever leads.
// Enemies: an agent that knows one server only, and that one dies; a new leader that knows less than the last one.
package apart
