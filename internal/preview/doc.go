// Package preview shows the beginning of a file of a dataset or model to people.
//
// Place: layer 5, for the server, which has the bytes, and for the program of a task that reads a version by reference where it lies. Promise: a bounded
// number of bytes is read and made, whatever the file says of itself; what is shown is text, rows, or a picture whose header says that it is one.
// Enemies: pictures of a billion points, rows without end, Parquet files with lengths that lie.
package preview
