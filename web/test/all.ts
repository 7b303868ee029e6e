import './code.ts';
import './format.ts';
import './graph.ts';
import './lanes.ts';
import './markdown.ts';
import './places.ts';
