package question

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// What somebody does with a question (MCP 2026-07-28, client/elicitation, Response Actions).
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// Answer is what somebody answered.
type Answer struct {
	// Action is Accept, Decline or Cancel.
	Action string
	// Content is what was filled in, for a form that was accepted and no other answer. It fits the form.
	Content json.RawMessage
}

// ReadAnswer reads the response to a question with these parameters, and says by the name of the field what does not fit: the API
// server takes from kubectl whatever has the shape of an answer. Formats are not checked.
func ReadAnswer(params, response json.RawMessage) (*Answer, error) {
	answer, err := object("response", response)
	if err != nil {
		return nil, err
	}
	action := answer.text("action")
	switch action {
	case Accept:
	case Decline, Cancel:
		return &Answer{Action: action}, nil
	default:
		return nil, errors.New("action must be accept, decline or cancel")
	}
	var asked Params
	if err := json.Unmarshal(params, &asked); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	if asked.Mode == URL {
		return &Answer{Action: action}, nil
	}
	if answer.members["content"] == nil {
		return nil, errors.New("content is missing: it has the values of the form")
	}
	content, err := object("content", answer.members["content"])
	if err != nil {
		return nil, err
	}
	form, err := object("requestedSchema", asked.RequestedSchema)
	if err != nil {
		return nil, err
	}
	if err := form.fits(content); err != nil {
		return nil, err
	}
	return &Answer{Action: action, Content: answer.members["content"]}, nil
}

// fits says whether the values fit this form. Values that the form does not have are let through, as JSON Schema has it.
func (n *node) fits(content *node) error {
	required, err := n.strings("required")
	if err != nil {
		return n.wrong("required", "must be an array of strings")
	}
	for _, name := range required {
		if content.members[name] == nil {
			return content.wrong(name, "is missing")
		}
	}
	properties, err := object(n.path+".properties", n.members["properties"])
	if err != nil {
		return err
	}
	for _, name := range properties.names() {
		value := content.members[name]
		if value == nil {
			continue
		}
		property, err := object(properties.path+"."+name, properties.members[name])
		if err != nil {
			return err
		}
		if err := property.takes(value); err != nil {
			return content.wrong(name, err.Error())
		}
	}
	return nil
}

// takes says what is wrong with a value of this property.
func (n *node) takes(value json.RawMessage) error {
	switch n.text("type") {
	case "string":
		return n.takesString(value)
	case "number", "integer":
		return n.takesNumber(value)
	case "boolean":
		if text := string(value); text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		return nil
	case "array":
		return n.takesChoices(value)
	}
	return errors.New("has a type that no form has")
}

func (n *node) takesString(value json.RawMessage) error {
	var text *string
	if json.Unmarshal(value, &text) != nil || text == nil {
		return errors.New("must be a string")
	}
	if n.members["enum"] != nil || n.members["oneOf"] != nil {
		options, err := n.options("enum", "oneOf")
		if err == nil && !slices.Contains(options, *text) {
			err = errors.New("must be one of the choices")
		}
		return err
	}
	return n.within(utf8.RuneCountInString(*text), "minLength", "maxLength", "characters")
}

func (n *node) takesNumber(value json.RawMessage) error {
	var given *float64
	if json.Unmarshal(value, &given) != nil || given == nil {
		return errors.New("must be a number")
	}
	got := *given
	if n.text("type") == "integer" && got != math.Trunc(got) {
		return errors.New("must be a whole number")
	}
	var limit float64
	if n.members["minimum"] != nil && n.decode("minimum", &limit) == nil && got < limit {
		return fmt.Errorf("must be at least %s", n.members["minimum"])
	}
	if n.members["maximum"] != nil && n.decode("maximum", &limit) == nil && got > limit {
		return fmt.Errorf("must be at most %s", n.members["maximum"])
	}
	return nil
}

func (n *node) takesChoices(value json.RawMessage) error {
	var chosen []*string
	if json.Unmarshal(value, &chosen) != nil || chosen == nil || slices.Contains(chosen, nil) {
		return errors.New("must be an array of strings")
	}
	items, err := object(n.path+".items", n.members["items"])
	if err != nil {
		return err
	}
	options, err := items.options("enum", "anyOf")
	if err != nil {
		return err
	}
	for i, choice := range chosen {
		if !slices.Contains(options, *choice) {
			return fmt.Errorf("must have only the choices; its item %d is none of them", i)
		}
	}
	return n.within(len(chosen), "minItems", "maxItems", "choices")
}

func (n *node) within(got int, low, high, what string) error {
	var limit uint32
	if n.members[low] != nil && n.decode(low, &limit) == nil && got < int(limit) {
		return fmt.Errorf("must have at least %d %s, not %d", limit, what, got)
	}
	if n.members[high] != nil && n.decode(high, &limit) == nil && got > int(limit) {
		return fmt.Errorf("must have at most %d %s, not %d", limit, what, got)
	}
	return nil
}
