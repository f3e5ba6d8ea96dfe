package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// entry is the record of a request, written after it was answered.
type entry struct {
	At     time.Time `json:"at"`
	Method string    `json:"method"`         // GET, POST, …
	Path   string    `json:"path"`           // with its query
	SOAP   string    `json:"soap,omitempty"` // the method that a POST to /sdk calls
	Range  string    `json:"range,omitempty"`
	Status int       `json:"status"`
	Bytes  int       `json:"bytes"`
}

// recorded writes an entry for every request, in the order of the answers.
func recorded(file string, next http.Handler) http.Handler {
	target, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	must(err)
	var lock sync.Mutex
	encoder := json.NewEncoder(target)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry := entry{Method: r.Method, Path: r.URL.RequestURI(), Range: r.Header.Get("Range")}
		if r.URL.Path == "/sdk" {
			body, _ := io.ReadAll(r.Body)
			entry.SOAP = calledMethod(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		answer := &counted{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		entry.At, entry.Status, entry.Bytes = time.Now().UTC(), answer.status, answer.bytes
		lock.Lock()
		defer lock.Unlock()
		must(encoder.Encode(entry))
	})
}

// calledMethod returns the name of the first element in the envelope's body.
func calledMethod(envelope []byte) string {
	var read struct {
		Body struct {
			Call struct{ XMLName xml.Name } `xml:",any"`
		}
	}
	if xml.Unmarshal(envelope, &read) != nil {
		return "?"
	}
	return read.Body.Call.XMLName.Local
}

type counted struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (c *counted) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(data []byte) (int, error) {
	written, err := c.ResponseWriter.Write(data)
	c.bytes += written
	return written, err
}
