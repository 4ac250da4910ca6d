// Package ship sends a folder to the server as the code of a task.
//
// Place: layer 5, on call and pack. Promise: a folder that the server has is not sent again; what was left out is said.
// Enemies: a folder that changes while it is read, a line that breaks.
package ship
