//! hrx-templates
