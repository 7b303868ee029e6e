import './styles/tokens.css';
import './styles/base.css';
import './styles/parts.css';
import './lib/theme.svelte';

import { mount } from 'svelte';

import App from './App.svelte';

const target = document.getElementById('page');
if (target !== null) mount(App, { target });
