// Package current is the engine of the present leadership: controllers hold it for life, while leaderships come and go.
//
// Place: layer 3, over the engine port; it knows no adapter. Promise: every call reaches the engine of now or none, and then it
// says so. Enemies: an engine that is used after its leadership.
package current
