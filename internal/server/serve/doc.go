// Package serve is the room of inference services: how they are made, changed, scaled, stopped and started, and what their
// replicas print.
//
// Place: a room of the server, above train and work, whose gate and rows it uses. Promise: a service has an address of its
// own in the whole cluster; what a caller may not see does not exist. Enemies: two services of one name in two projects, a
// model of somebody else's task, a change that the controller writes over.
package serve
